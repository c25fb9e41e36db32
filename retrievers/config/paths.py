"""Paths as users write them."""

from pathlib import Path


def user_path(text: str | Path) -> Path:
    """The path with the user's home in place of `~`; the shell leaves that standing in `--flag=~/file`.

    Raises:
        ValueError: `~name` names nobody, or no file can have such a name.
    """
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home folder for {Path(text).parts[0]!r}; write the path out") from None
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # for whoever opens it to say
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"expected the path of a file or folder ({reason})") from None
    return path
