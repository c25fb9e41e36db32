from pathlib import Path

import pytest

from evals.config.experiment import ExperimentConfig
from evals.run import USUAL, load_config, parser
from retrievers.config.layers import leaves
from tests.support.experiment import Experiment, make_experiment


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("made"))


ENVIRONMENT = {
    "RAG_DEFAULT_TOP_K": "9",
    "RAG_SIMILARITY_THRESHOLD": "0.9",
    "RAG_DEFAULT_COLLECTION": "theirs",
    "RAG_SEARCH_MODE": "semantic",
    "QDRANT_URL": "http://127.0.0.1:6333",
}


def loaded(file: Path, *arguments: str, env: dict[str, str]) -> ExperimentConfig:
    return load_config(parser().parse_args(["--config", str(file), *arguments]), env)


def test_the_default_experiment_is_not_changed_by_the_environment() -> None:
    default = parser().parse_args([])
    assert load_config(default, ENVIRONMENT) == load_config(default, {})


def test_the_default_experiment_has_no_part_in_a_run_on_other_data() -> None:
    """Else half of the queries were left out, and each failed for want of the handbook's fields."""

    def default(*arguments: str) -> ExperimentConfig:
        return load_config(parser().parse_args(arguments), {})

    own = default("--dataset.path", "my.jsonl", "--retriever.collection", "mine", "--retriever.threshold", "0.2")
    settings = {"dataset.path": "my.jsonl", "retriever.collection": "mine", "retriever.threshold": 0.2}
    assert own == ExperimentConfig.load(settings=settings, env={})
    handbook, elsewhere = default(), default("--retriever.collection", "handbook_copy")
    assert handbook.dataset.split == "test" and handbook.retriever.metadata.required and handbook.sources.dir
    assert (elsewhere.dataset, elsewhere.sources, elsewhere.criteria) == (
        handbook.dataset, handbook.sources, handbook.criteria
    )  # fmt: skip
    asked_for = default("--config", "default", "--dataset.path", "my.jsonl")
    assert (asked_for.dataset.split, asked_for.retriever) == ("test", handbook.retriever)


def test_a_packaged_experiment_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(parser().parse_args([]), {}).name == "default"
    assert load_config(parser().parse_args(["--config", "spec"]), {}).name == "spec"
    Path("spec").write_text("name: my file of that name")
    assert load_config(parser().parse_args(["--config", "spec"]), {}).name == "my file of that name"


def test_no_variable_but_the_five_changes_an_experiment(tmp_path: Path) -> None:
    """Whatever a library might read of a variable that has the name of a setting."""
    file = tmp_path / "open.yaml"
    file.write_text("dataset: {path: golden.jsonl}\n")
    names = [name.replace(".", mark).upper() for name in leaves(ExperimentConfig) for mark in ("_", "__", ".")]
    others = {f"{prefix}{name}": "1" for name in names for prefix in ("", "EVALS_", "RAG_", "RETRIEVAL_EVALS_")}
    assert ENVIRONMENT.keys().isdisjoint(others) and {"SEED", "NAME", "RETRIEVER__TOP_K"} < others.keys()
    assert loaded(file, env=others) == loaded(file, env={})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in others.items():
            patch.setenv(name, value)
        assert loaded(file, env={}) == ExperimentConfig.load(file, env={})
        assert ExperimentConfig.load(file) == ExperimentConfig.load(file, env={})


def test_help_shows_the_flags_that_people_use_and_help_all_every_setting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = {}
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit, match="0"):
            parser().parse_args([flag])
        text = capsys.readouterr().out
        words = (line.strip().split(" ")[0].rstrip(",") for line in text.splitlines())
        shown[flag] = {word for word in words if word.startswith("--")}
    assert shown["--help"] == {*USUAL} and len(USUAL) == 21
    every = {f"--{name.replace('_', '-')}" for name in leaves(ExperimentConfig)} - {"--dataset.ids", "--dataset.limit"}
    assert every | shown["--help"] - {"--help-all"} <= shown["--help-all"]
    assert "Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, 130" in text
