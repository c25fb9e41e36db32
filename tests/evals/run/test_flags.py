"""The commands under one name, and the flags of a run: what they show, and what changes an experiment."""

from importlib.metadata import version
from pathlib import Path

import pytest

from evals.__main__ import COMMANDS, main
from evals.config.experiment import ExperimentConfig
from evals.run import USUAL, load_config, parser
from retrievers.config.layers import leaves
from tests.support.command import call

FIVE = {
    "RAG_DEFAULT_TOP_K": "9",
    "RAG_SIMILARITY_THRESHOLD": "0.9",
    "RAG_DEFAULT_COLLECTION": "theirs",
    "RAG_SEARCH_MODE": "semantic",
    "QDRANT_URL": "http://127.0.0.1:6333",
}
"""The variables that change an experiment, but not the default one."""


def loaded(*arguments: str, env: dict[str, str] | None = None) -> ExperimentConfig:
    return load_config(parser().parse_args(arguments), env or {})


# `retrieval-evals COMMAND`


@pytest.mark.parametrize(("command", "given"), [("golden label", "FILE"), ("search", "QUERY"), ("compare", "RUN ...")])
def test_help_begins_with_what_has_to_be_given(command: str, given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    assert capsys.readouterr().out.startswith(f"usage: retrieval-evals {command} [OPTIONS] {given}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_usage_and_errors_of_a_command_begin_with_the_one_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage, fault = call(main, [name, "--help"], capsys), call(main, [name, "--no-such-flag"], capsys)
    assert (usage.code, fault.code) == (0, 2)
    assert usage.out.startswith(f"usage: retrieval-evals {name} ") and fault.err.startswith("retrieval-evals")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--list-metrics"], 0, "ranking/ndcg_at_5"),
        (["golden", "check", "no-such.jsonl"], 2, "no-such.jsonl"),
        (["serach", "--top-k", "3"], 2, "retrieval-evals: unknown command 'serach'; did you mean 'search'"),
        ([], 2, "required: COMMAND (see --help)"),
        (["--version"], 0, f"retrieval-evals {version('retrieval-evals')}\n"),
        *((["--help"], 0, f"  {name:8} {about}") for name, (about, _) in COMMANDS.items()),
    ],
)
def test_the_exit_code_is_that_of_the_command(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(main, arguments, capsys)
    assert done.code == code and said in (done.err if code else done.out)


# The flags of a run


def test_the_default_experiment_has_no_part_in_a_run_on_other_data() -> None:
    """Else half of the queries were left out, and each failed for want of the handbook's fields."""
    own = loaded("--dataset.path", "my.jsonl", "--retriever.collection", "mine", "--retriever.threshold", "0.2")
    settings = {"dataset.path": "my.jsonl", "retriever.collection": "mine", "retriever.threshold": 0.2}
    assert own == ExperimentConfig.load(settings=settings, env={})
    handbook, elsewhere = loaded(), loaded("--retriever.collection", "handbook_copy")
    assert handbook.dataset.split == "test" and handbook.retriever.metadata.required and handbook.sources.dir
    assert (elsewhere.dataset, elsewhere.sources, elsewhere.criteria) == (
        handbook.dataset, handbook.sources, handbook.criteria
    )  # fmt: skip
    asked_for = loaded("--config", "default", "--dataset.path", "my.jsonl")
    assert (asked_for.dataset.split, asked_for.retriever) == ("test", handbook.retriever)


def test_a_packaged_experiment_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [loaded().name, loaded("--config", "spec").name] == ["default", "spec"]
    Path("spec").write_text("name: my file of that name")
    assert loaded("--config", "spec").name == "my file of that name"


def test_no_variable_but_the_five_changes_an_experiment_and_none_the_default_one(tmp_path: Path) -> None:
    """Whatever a library might read of a variable that has the name of a setting."""
    assert loaded(env=FIVE) == loaded()
    file = tmp_path / "open.yaml"
    file.write_text("dataset: {path: golden.jsonl}\n")
    names = [name.replace(".", mark).upper() for name in leaves(ExperimentConfig) for mark in ("_", "__", ".")]
    others = {f"{prefix}{name}": "1" for name in names for prefix in ("", "EVALS_", "RAG_", "RETRIEVAL_EVALS_")}
    assert FIVE.keys().isdisjoint(others) and {"SEED", "NAME", "RETRIEVER__TOP_K"} < others.keys()
    assert loaded("--config", str(file), env=others) == loaded("--config", str(file))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in others.items():
            patch.setenv(name, value)
        for made in (loaded("--config", str(file)), ExperimentConfig.load(file)):
            assert made == ExperimentConfig.load(file, env={})


def test_help_shows_the_flags_that_people_use_and_help_all_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for flag in ("--help", "--help-all"):
        text = call(main, ["run", flag], capsys).out
        words = (line.strip().split(" ")[0].rstrip(",") for line in text.splitlines())
        shown[flag] = {word for word in words if word.startswith("--")}
    assert shown["--help"] == {*USUAL} and len(USUAL) == 21
    every = {f"--{name.replace('_', '-')}" for name in leaves(ExperimentConfig)} - {"--dataset.ids", "--dataset.limit"}
    assert every | shown["--help"] - {"--help-all"} <= shown["--help-all"]
    assert "Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, 130" in text
