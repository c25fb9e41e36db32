"""Files that only their owner may read: they hold queries, prompts or texts."""

import contextlib
import os
import stat
from pathlib import Path


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
