"""Paths as users write them, the folder that keeps what can be made again, and files for their owner alone."""

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

# Before the path of a folder of qdrant-client's local mode, whose points are pickled: the user says that it is trusted.
LOCAL_MODE = "local:"
# pathlib makes folders one within another, and cannot do so for ever.
DEEPEST = 200


def without_mark(path: str | Path) -> tuple[str, str]:
    """Return the mark before a path (`local:` or none), and the path."""
    mark = LOCAL_MODE if str(path).startswith(LOCAL_MODE) else ""
    return mark, str(path).removeprefix(mark)


def user_path(text: str | Path) -> Path:
    """Replace `~` in a path by the user's home; the shell does not do so in `--flag=~/file`.

    Raises:
        ValueError: `~name` names no user, no file can have such a name, or it lies too deep.
    """
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"there is no home folder for {Path(text).parts[0]!r}; write the path out") from None
    if len(path.parts) > DEEPEST:
        raise ValueError(f"expected a path of at most {DEEPEST} folders, got one of {len(path.parts) - 1:,}")
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


def make_private(file: Path) -> None:
    """Make a file for its owner alone, and let one that is there already be so (on Windows folders see to that).

    Raises:
        OSError: It cannot be made.
    """
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        # The file belongs to another user, who sets its mode, or lies on a read-only disk.
        with contextlib.suppress(OSError):
            file.chmod(stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXU)
