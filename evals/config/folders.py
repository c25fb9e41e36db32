"""Folders that experiment files name, so that they work in a checkout and in an installed package."""

from collections.abc import Mapping
from pathlib import Path

from retrievers.config.files import user_cache

PACKAGE = Path(__file__).parents[1]


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
