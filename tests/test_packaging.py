"""What is installed: pyproject.toml lists every package, and every file in them that is no Python."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("evals", "retrievers")
SETUPTOOLS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def files(package: str) -> set[Path]:
    """All that belong to a package, from its folder on."""
    found = (ROOT / package).rglob("*")
    return {file.relative_to(ROOT) for file in found if file.is_file() and "__pycache__" not in file.parts}


def test_every_folder_with_code_is_a_package_that_is_installed() -> None:
    folders = {file.parent for package in PACKAGES for file in files(package) if file.suffix == ".py"}
    assert {".".join(folder.parts) for folder in folders} == set(SETUPTOOLS["packages"])
    assert all((ROOT / folder / "__init__.py").is_file() for folder in folders)


def test_every_other_file_is_package_data() -> None:
    assert set(SETUPTOOLS["package-data"]) == set(PACKAGES)
    for package in PACKAGES:
        others = {file for file in files(package) if file.suffix != ".py"}
        globs = SETUPTOOLS["package-data"][package]
        installed = {found.relative_to(ROOT) for glob in globs for found in (ROOT / package).glob(glob)}
        assert installed == others
        assert all(any((ROOT / package).glob(glob)) for glob in globs)
