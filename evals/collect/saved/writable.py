"""The check before any work that a retrieval can be saved in a folder."""

from pathlib import Path

from evals.config.files import probe
from retrievers.errors import ConfigError

MANIFEST = "manifest.json"


def check_retrieval_folder(folder: Path) -> None:
    """Make sure before any work that a retrieval can be saved in a folder.

    Raises:
        ConfigError: It cannot be written, or holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--save-retrieval {folder}: expected a folder, found a file; name another")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise ConfigError(
            f"--save-retrieval {folder}: expected a new or empty folder or a saved retrieval to replace, found "
            f"{min(file.name for file in folder.iterdir())!r} in it; name another"
        )
    try:
        probe(folder.absolute().parent)
    except OSError as error:
        raise ConfigError(f"--save-retrieval {folder}: cannot be written: {error.strerror}") from error
