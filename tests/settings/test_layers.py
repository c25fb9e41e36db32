"""Settings out of layers: which one wins, what a file and a flag may say, how faults are told.

`tests/properties` has the order of the layers.
"""

import argparse
import json
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from evals.__main__ import main
from evals.config.experiment import ExperimentConfig
from retrievers.config import EmbeddingConfig, RetrieverConfig, dump
from retrievers.config.layers import (
    Layer,
    add_flags,
    api_key,
    build,
    environment,
    environment_layer,
    file_layer,
    flag_layer,
    nest,
)
from retrievers.errors import ConfigError
from tests.support.command import call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "retriever.yaml"


def read(file: Path, text: str, **folders: Path) -> Layer:
    file.write_text(text, encoding="utf-8")
    return file_layer(file, RetrieverConfig, folders)


def flags(*arguments: str) -> Layer:
    parser = argparse.ArgumentParser()
    add_flags(parser, RetrieverConfig)
    return flag_layer(parser.parse_args(arguments), RetrieverConfig)


def layer(label: str = "f", **values: Any) -> Layer:
    return Layer(label=label, values=nest({name.replace("__", "."): value for name, value in values.items()}))


def faults(*layers: Layer, model: Any = RetrieverConfig) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        build(model, layers)
    return str(caught.value).splitlines()


# What a higher layer replaces

TABLES: dict[str, Any] = {
    "filters": {"metadata.source_url": "/a", "tags": ["b", "c"], "n": 5},
    "abbreviations": {"e.g.": "for example", "R&D": "research"},
    "keyword": {"synonyms": {"node.js": ["javascript"], "C++": ["cpp"]}},
}
ADDRESS = {"base_url": "http://localhost:8000/v1"}
E5 = {"embedding": {"model": "openai:e5", **ADDRESS, "query_prefix": "query: ", "options": {"a": 8}}}
COHERE, OTHER = {"model": "cohere:embed-v4.0"}, {"model": "openai:other"}


def test_what_of_a_lower_layer_a_higher_one_replaces() -> None:
    for lower, higher, name, value in (
        # One choice of a store replaces the other; without one the lower choice stays.
        ({"store": {"url": "http://h"}}, {"store": {"path": "/p"}}, "store.url", None),
        ({"store": {"path": "/p"}}, {"store": {"url": "http://h"}}, "store.path", None),
        ({"store": {"url": "http://h"}}, {"store": {"timeout_s": 3}}, "store.url", "http://h"),
        ({"store": {"path": "/p"}}, {"store": {"url": None, "path": "/q"}}, "store.path", "/q"),
        # A mapping of the user's own keys is replaced as a whole.
        ({"metadata__map": {"title": "t"}}, {"metadata__map": {}}, "metadata.map", {}),
        (TABLES, {"filters": {"tags": "a"}}, "filters", {"tags": "a"}),
        ({"filters": "tags = a"}, TABLES, "filters", TABLES["filters"]),
        (TABLES, {"keyword__synonyms": {}}, "keyword.synonyms", {}),
        # Another model gets of the one below the address alone, and only where their provider is asked.
        (E5, {"embedding": COHERE}, "embedding", dump(EmbeddingConfig.model_validate(COHERE))),
        (E5, {"embedding": OTHER}, "embedding", dump(EmbeddingConfig.model_validate(OTHER | ADDRESS))),
    ):
        found: Any = dump(build(RetrieverConfig, [layer(**lower), layer(**higher)]))
        for part in name.split("."):
            found = found[part]
        assert found == value


def test_a_retriever_of_the_users_own_replaces_all_but_how_much_is_read_and_what_it_is_called() -> None:
    whole: dict[str, Any] = {"mode": "hybrid", "embedding": COHERE, "threshold": 0.7}
    kept: dict[str, Any] = {"top_k": 8, "candidates": 50, "metadata": {"nested_under": "m"}}
    below = layer(**whole, **kept, store={"path": "/s"}, collection="c", filters="a = 1")
    made = build(RetrieverConfig, [below, flags("--python", "m:f")])
    assert (made.python, made.top_k, made.candidates, made.metadata.nested_under) == ("m:f", 8, 50, "m")
    assert made.model_fields_set == {"python", "top_k", "candidates", "metadata"}
    beside = build(RetrieverConfig, [below, flags("--python", "m:f", "--collection", "d", "--top-k", "2")])
    assert (beside.collection, beside.top_k, beside.names_collection) == ("d", 2, True)
    assert "settles vector_name by itself" in faults(layer(python="m:f"), flags("--vector-name", "v"))[0]
    layers = [layer(name="n", retriever__mode="hybrid", seed=3), layer(retriever__python="m:f")]
    of_experiment = build(ExperimentConfig, layers)
    assert (of_experiment.seed, of_experiment.retriever.model_fields_set) == (3, {"python"})


def test_what_the_default_experiment_is_compared_with_goes_with_its_data() -> None:
    file = layer(baseline="b.json", dataset={"path": "a.jsonl"})
    assert build(ExperimentConfig, [file, layer(seed=1)]).baseline is not None
    for name, value in (("dataset__path", "b.jsonl"), ("dataset__split", "dev")):
        assert build(ExperimentConfig, [file, layer(**{name: value})]).baseline is None


def test_a_value_of_a_higher_layer_ends_the_sweep_of_it() -> None:
    file = layer(sweep={"top_k": [1, 2], "mode": ["semantic", "hybrid"]}, retriever={"threshold": 0.3})
    made = build(ExperimentConfig, [file, layer(retriever={"top_k": 4})])
    assert (made.retriever.top_k, [*made.sweep.axes]) == (4, ["mode"])
    again = build(ExperimentConfig, [file, layer(retriever={"top_k": 4}), layer(sweep={"top_k": [5]})])
    assert [*again.sweep.axes] == ["top_k", "mode"]


# What a layer may say


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("db", "{folder}/db"),
        ("../db", "{folder}/../db"),
        ("/abs/db", "/abs/db"),
        ("~/db", "~/db"),
        ("./~/db", "{folder}/~/db"),
        ("data:db", "{folder}/elsewhere/db"),
        ("date:db", "{folder}/date:db"),
        ("local:db", "local:{folder}/db"),
    ],
)
def test_a_relative_path_starts_at_the_folder_of_its_file(written: str, path: str, file: Path) -> None:
    found = read(file, f"store: {{path: '{written}'}}", data=file.parent / "elsewhere").values["store"]["path"]
    assert found == path.replace("{folder}/..", str(file.parent.parent)).format(folder=file.parent)


def test_the_tilde_is_the_users_home_wherever_a_path_comes_from(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    for given in (read(file, "store: {path: ~/db}"), flags("--store.path", "~/db")):
        assert build(RetrieverConfig, [given]).store.path == Path("/home/ada/db")
    assert build(RetrieverConfig, [flags("--store.path", "db")]).store.path == Path("db")
    assert "home directory" in faults(flags("--store.path", "~nobody-of-that-name/db"))[0]


NO_SETTINGS = (
    "top_k: 3\ntop_k: 4", "{store: {path: a, path: b}}", "a: [1", "a: !!python/object:os.system x",
    "threshold: 2024-13-45", "- a", "", "a: \x07",
)  # fmt: skip


def test_a_file_that_is_none_of_settings_is_named_with_its_line(file: Path, snapshot: SnapshotAssertion) -> None:
    told = []
    for text in NO_SETTINGS:
        with pytest.raises(ConfigError) as caught:
            read(file, text)
        told.append(str(caught.value).replace(str(file), "FILE"))
    assert told == snapshot


def test_a_flag_is_written_as_in_a_file() -> None:
    for flag, raw, value in (
        ("metadata.required", "title, url", ["title", "url"]),
        ("metadata.required", "[title, '>= 1']", ["title", ">= 1"]),
        ("metadata.map", "{title: t, url: href}", {"title": "t", "url": "href"}),
        ("embedding.options", "{dimensions: 256, exact: true}", {"dimensions": 256, "exact": True}),
        ("filters", json.dumps(TABLES["filters"]), TABLES["filters"]),
        ("filters", "[module]", "[module]"),
        ("filters", "5", "5"),
        ("threshold", "null", None),
    ):
        assert flags(f"--{flag.replace('_', '-')}", raw).values == nest({flag: value})


def test_a_flag_that_is_not_yaml_is_named_and_an_empty_variable_or_one_of_another_name_sets_nothing(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"--metadata.map '\{a':1: not valid YAML"):
        flags("--metadata.map", "{a")
    assert faults(flags("--metadata.map", "title"))[0].startswith("metadata.map: Input should be a valid")
    env = environment({"QDRANT_URL": "", "TOP_K": "9", "RAG_RERANK": "mmr"}, file)
    assert environment_layer(env).values == {}


# Faults


def test_every_fault_is_told_at_once_with_value_origin_and_nearest_name(file: Path) -> None:
    layers = [
        environment_layer({"RAG_DEFAULT_TOP_K": "many"}),
        read(file, "mmr_lambda: 1.5\nstore: {pth: x}\ncolection: y\nkeyword_weight: 0.3\n"),
        flags("--candidates", "0"),
    ]
    assert sorted(faults(*layers)) == [
        "candidates: Input should be greater than or equal to 1, got '0' (set by the command line)",
        f"colection: unknown setting (set by {file}); did you mean 'collection' or 'vector_name'?",
        f"keyword_weight: is no setting any more (set by {file}): the keyword side has what semantic_weight leaves",
        f"mmr_lambda: Input should be less than or equal to 1, got 1.5 (set by {file})",
        f"store.pth: unknown setting (set by {file}); did you mean 'store.path' or 'store.url' or 'store.timeout_s'?",
        "top_k: Input should be a valid integer, unable to parse string as an integer, got 'many' "
        "(set by the environment)",
    ]
    assert faults(layer("low", top_k=3), layer("high", top_k=0))[0].endswith("got 0 (set by high)")


def test_a_secret_in_an_address_is_not_printed() -> None:
    for setting in ("store__url", "embedding__base_url"):
        for address in (
            "http://user:s3cret@h:6333",
            "http://s3cret@h",
            "http://h?key=s3cret",
            "http://user:pa/s3cret@h",
        ):
            (fault,) = faults(layer(**{setting: address}))
            assert fault.startswith(setting.replace("__", ".")) and "s3cret" not in fault


def test_a_key_in_place_of_its_variable_is_refused_unseen() -> None:
    for key in ("sk-0123456789abcdef", "x7KdQ2mZp8Lr4TnV9sWb3HcY6fJg1AeR5uXo0iBt", "A" * 32, "", 5):
        (fault,) = faults(layer(judge={"api_key_env": key}), model=ExperimentConfig)
        assert fault.endswith("such as COHERE_API_KEY, and not the key itself (set by f)")
        assert str(key) not in fault or not key
    assert api_key({"K": " abc\n"}, "K") == "abc" and api_key({}, "K") is None


# Names of earlier versions

REMOVED: dict[str, str] = yaml.safe_load(
    files("retrievers.config").joinpath("removed.yaml").read_text(encoding="utf-8")
)
COMMANDS = [name for name in REMOVED if name.startswith("retrieval-evals ")]
METRICS = [name for name in REMOVED if "/" in name]
SETTINGS = [name for name in REMOVED if name not in {*COMMANDS, *METRICS} and not name.startswith("--")]
OF_EXPERIMENTS = ("judge", "sweep", "tracking", "objective", "index", "sources", "determinism", "latency")
CALLS = {name: [*shlex.split(name)[1:], "something"] for name in COMMANDS} | {
    name: ["run", "--metrics", name.replace("_at_K", "_at_5")] for name in METRICS
}


@pytest.mark.parametrize("name", CALLS)
def test_a_subcommand_or_metric_that_went_names_its_successor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(main, CALLS[name], capsys)
    assert (done.code, REMOVED[name] in done.err) == (2, True), done.err
    assert done.err.count("\n") == 1 or name in METRICS


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_went_names_its_successor_in_a_file_and_as_a_flag(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setting, _, value = name.partition("=")
    first = setting.partition(".")[0]
    path = setting if first in OF_EXPERIMENTS else f"retriever.{setting}"
    *above, last = path.split(".")
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(above)]
    file = tmp_path / "old.yaml"
    file.write_text("\n".join([*lines, f"{'  ' * len(above)}{last}: {value or 1}"]))
    for arguments in (["--config", file], [f"--{path.replace('_', '-')}", value or "1"]):
        done = call(main, ["run", *arguments], capsys)
        assert (done.code, REMOVED[name] in done.err) == (2, True), done.err
        assert first.replace("_", "-") in done.err.replace("_", "-")
