"""Files of an experiment: folders that paths may name, packaged experiments, and writing a file whole or not at all."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryFile
from uuid import uuid4

from retrievers.config.files import user_cache
from retrievers.errors import ConfigError, nearest

PACKAGE = Path(__file__).parents[1]
PRESETS = Path(__file__).parent / "presets"


# Packaged


def named_folders(env: Mapping[str, str], package: Path = PACKAGE) -> Mapping[str, Path]:
    """Return the folders with which a path of an experiment file may begin, such as `datasets:golden.jsonl`.

    In a wheel the data is inside the package, in a checkout beside it.

    Returns:
        `datasets`, the folder of the packaged data; and `home`, the folder of files that are kept between runs: the
        checkout or the user's cache.
    """
    if (inside := package / "datasets").is_dir():
        return {"datasets": inside, "home": user_cache(env)}
    return {"datasets": package.parent / "datasets", "home": package.parent}


def packaged() -> list[str]:
    """Return the names of the packaged experiments."""
    return sorted(file.stem for file in PRESETS.glob("*.yaml"))


def experiment_file(given: Path) -> Path:
    """Return the file of an experiment by its path, or by the name of a packaged experiment.

    Raises:
        ConfigError: There is neither. The message gives the nearest name.
    """
    names = packaged()
    if given.exists() or (given.stem not in names and (given.suffix or len(given.parts) > 1)):
        return given
    if str(given) not in names:  # a path of the checkout (presets/cohere.yaml) among them
        expected = f"expected a YAML file, or one of {', '.join(names)}, found neither"
        raise ConfigError(f"--config {given}: {expected}{nearest(given.stem, names)}")
    return PRESETS / f"{given}.yaml"


# Writing


def write(file: Path, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        ConfigError: The file cannot be written.
    """
    with replacing(file) as part:
        part.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file. At the end its file replaces the other, which is never half-written.

    A link stays one, to the file that is written, and a file that others may not read stays so.

    Raises:
        ConfigError: The file cannot be written.
    """
    # The temporary name is short, so that a long name of the file does not make it too long.
    part = file.resolve().with_name(f".{uuid4().hex}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.chmod(part.stat().st_mode & (file.stat().st_mode if file.exists() else 0o777))
        part.replace(file.resolve())
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from error
    finally:
        # The temporary file has been moved, or its folder could not be made.
        with contextlib.suppress(OSError):
            part.unlink()


def check_apart(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Check before any work that files can be written, each to a place of its own, and none over a file that is read.

    Raises:
        ConfigError: A file cannot be written, or has the place of another one.
    """
    files = [file.absolute() for file in outputs if file]
    written, read = [os.path.realpath(file) for file in files], {os.path.realpath(file) for file in inputs if file}
    for file, place in zip(files, written, strict=True):
        check_writable(file)
        if place in read or written.count(place) > 1:
            fault = "it is read, and would be overwritten" if place in read else "two outputs would be one file"
            raise ConfigError(f"{file}: {fault}; expected a file for each")


def check_writable(file: Path) -> None:
    """Check before any work that a file can be written, without leaving a file behind.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        # `exists` would say False of a name that is too long, where `stat` fails.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not S_ISREG(file.stat().st_mode):
                kind = "a folder" if file.is_dir() else "a device or a pipe"
                raise ConfigError(f"{file}: expected a file to write, found {kind}")
        probe(file.parent)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from error


def probe(folder: Path) -> None:
    """Make a temporary file in a folder, or in its nearest existing parent, to check that it can be written.

    Raises:
        OSError: The temporary file cannot be made.
    """
    folder = folder.absolute()
    with TemporaryFile(dir=next(parent for parent in (folder, *folder.parents) if os.path.lexists(parent))):
        pass
