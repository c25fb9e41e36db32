from pathlib import Path

import pytest

from evals.config import handbook as bundled
from evals.config.experiment import ExperimentConfig
from evals.config.handbook import check_bundled
from evals.run.flags import load_config, parser
from retrievers.errors import ConfigError


def experiment(*flags: str) -> ExperimentConfig:
    return load_config(parser().parse_args(flags), {})


def test_a_checkout_has_what_the_packaged_experiments_need() -> None:
    check_bundled(experiment())


def test_an_installed_package_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere = tmp_path / "site-packages" / "datasets"
    monkeypatch.setattr(bundled, "FOLDER", elsewhere)
    flags = ["--dataset.path", str(elsewhere / "golden.jsonl"), "--sources.dir", str(elsewhere / "docs")]
    with pytest.raises(ConfigError) as caught:
        check_bundled(experiment(*flags))
    said = str(caught.value)
    assert f"dataset.path {elsewhere / 'golden.jsonl'}, sources.dir {elsewhere / 'docs'}" in said
    assert "run this in a checkout, or give an experiment of your own (--config FILE)" in said


def test_data_of_the_users_own_is_left_to_its_own_checks(tmp_path: Path) -> None:
    check_bundled(experiment("--dataset.path", str(tmp_path / "none.jsonl"), "--sources.dir", str(tmp_path / "none")))
