from pathlib import Path

import pytest

from evals.config.experiment import ExperimentConfig
from evals.config.files import PRESETS, named_folders
from evals.run import load_config, parser

ROOT = Path(__file__).parents[3]
INSTALLED = ["site-packages/evals/datasets", "site-packages/datasets"]
CHECKED_OUT = ["checkout/evals", "checkout/datasets"]


def made(folder: Path, names: list[str]) -> Path:
    """Make folders; the first one's root is returned."""
    for name in names:
        (folder / name).mkdir(parents=True)
    return folder / Path(names[0]).parts[0]


def test_a_checkout_has_the_data_beside_the_package_and_keeps_all_in_its_root(tmp_path: Path) -> None:
    root = made(tmp_path, CHECKED_OUT)
    assert named_folders({}, root / "evals") == {"datasets": root / "datasets", "home": root}


def test_an_installed_package_has_the_data_inside_and_keeps_all_in_the_users_cache(tmp_path: Path) -> None:
    package = made(tmp_path, INSTALLED) / "evals"
    cache = tmp_path / "cache"
    expected = {"datasets": package / "datasets", "home": cache / "retrieval-evals"}
    assert named_folders({"XDG_CACHE_HOME": str(cache)}, package) == expected
    assert named_folders({}, package)["home"] == Path.home() / ".cache" / "retrieval-evals"


@pytest.mark.parametrize("preset", sorted(PRESETS.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_paths_of_every_packaged_experiment_are_found_here(preset: Path) -> None:
    for config in (load_config(parser().parse_args(["--config", str(preset)]), {}), ExperimentConfig.load(preset)):
        assert config.dataset.path and config.dataset.path.is_file()
        assert config.sources.dir and config.sources.dir.is_dir()
        assert config.retriever.store.path == ROOT / ".qdrant"


def test_a_copy_of_a_packaged_experiment_works_anywhere(tmp_path: Path) -> None:
    copy = tmp_path / "mine.yaml"
    copy.write_bytes((PRESETS / "default.yaml").read_bytes())
    assert ExperimentConfig.load(copy).dataset == ExperimentConfig.load(PRESETS / "default.yaml").dataset
