"""Paths as users write them, and the folder that keeps what can be made again."""

from collections.abc import Mapping
from pathlib import Path

# Before the path of a folder of qdrant-client's local mode, whose points are pickled: the user says that it is trusted.
LOCAL_MODE = "local:"


def without_mark(path: str | Path) -> tuple[str, str]:
    """Return the mark before a path (`local:` or none), and the path."""
    mark = LOCAL_MODE if str(path).startswith(LOCAL_MODE) else ""
    return mark, str(path).removeprefix(mark)


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


def user_cache(env: Mapping[str, str]) -> Path:
    """Return the project's folder below the user's cache folder (`XDG_CACHE_HOME`, `~/.cache` where it is not set)."""
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retrieval-evals"
