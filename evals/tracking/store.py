"""Where runs are kept when no server is named: a database and a folder of artifacts below `FOLDER`."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from evals.config import TrackingConfig
from evals.files import probe
from retrievers.errors import ConfigError

FOLDER = Path("mlruns")


def local_uri(folder: Path) -> str:
    """The database below a folder, which is made where there is none.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}"


def check_folder(folder: Path) -> None:
    """Make sure that runs can be kept in a folder; leaves nothing behind.

    Raises:
        ConfigError: It cannot be made or written to.
    """
    try:
        probe(folder)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be written ({error.strerror}); runs are logged there: free it, name another store with "
            "--tracking.uri, or switch it off with --tracking.enabled false"
        ) from error


@contextlib.contextmanager
def creation_lock(config: TrackingConfig) -> Iterator[None]:
    """Let nobody else create the database meanwhile, which two at once can break for good; a server locks by itself."""
    if config.uri and not config.uri.startswith("sqlite:"):
        yield
        return
    from filelock import FileLock

    place = Path(config.uri.removeprefix("sqlite:///") + ".lock") if config.uri else FOLDER / ".mlflow.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place):
        yield
