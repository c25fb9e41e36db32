"""Folders that experiment files name, so that they work in a checkout and in an installed package."""

from collections.abc import Mapping
from pathlib import Path

from retrievers.config.files import user_cache
from retrievers.errors import ConfigError, nearest

PACKAGE = Path(__file__).parents[1]
PRESETS = Path(__file__).parent / "presets"


def named_folders(env: Mapping[str, str], package: Path = PACKAGE) -> Mapping[str, Path]:
    """Return the folders with which a path of an experiment file may begin, such as `datasets:golden.jsonl`.

    A wheel carries the data inside the package, where a checkout has them beside it.

    Returns:
        `datasets`: the data that come along. `home`: for what is kept between runs, the checkout or the user's cache.
    """
    packaged = package / "datasets"
    if packaged.is_dir():
        return {"datasets": packaged, "home": user_cache(env)}
    return {"datasets": package.parent / "datasets", "home": package.parent}


def packaged() -> list[str]:
    """Return the names of the packaged experiments."""
    return sorted(file.stem for file in PRESETS.glob("*.yaml"))


def experiment_file(given: Path) -> Path:
    """Return the file of an experiment given by its path, or by its name if it is a packaged one.

    Raises:
        ConfigError: There is neither; the nearest name is given.
    """
    if given.exists() or given.suffix or len(given.parts) > 1:
        return given
    if str(given) not in packaged():
        raise ConfigError(
            f"--config {given}: expected a YAML file, or one of {', '.join(packaged())}, found neither"
            f"{nearest(str(given), packaged())}"
        )
    return PRESETS / f"{given}.yaml"
