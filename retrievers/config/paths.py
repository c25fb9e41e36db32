"""Paths as users write them."""

from pathlib import Path


def user_path(text: str | Path) -> Path:
    """Replace `~` in a path by the user's home; the shell does not do so in `--flag=~/file`.

    Raises:
        ValueError: `~name` names no user, or no file can have such a name.
    """
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home folder for {Path(text).parts[0]!r}; write the path out") from None
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # The open that follows reports it.
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"expected the path of a file or folder ({reason})") from None
    return path
