"""Settings: what each takes, and what is said of what it does not; and layers, whose order `tests/properties` has."""

import argparse
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from evals.__main__ import main
from evals.cases.case import compiled, found
from evals.cases.reading import load_golden
from evals.config.experiment import ExperimentConfig
from evals.config.files import PRESETS, check_writable, named_folders, probe, write
from evals.config.judge import JudgeConfig
from evals.config.telemetry import OFFLINE, SILENCED, silence
from evals.config.values import conditions, numbers
from evals.metrics import choose
from evals.run import load_config, parser
from retrievers.config import EmbeddingConfig, IndexSettings, RetrieverConfig, dump, layers
from retrievers.config.files import load_json, make_private, read_text, user_path
from retrievers.config.indexing import DEFAULTS, recorded_settings
from retrievers.config.layers import Layer, build, environment, environment_layer, file_layer, leaves, nest
from retrievers.errors import ConfigError
from tests.support.command import call, refusal

ROOT = Path(__file__).parents[2]
VALUES = yaml.safe_load(Path(__file__).with_name("values.yaml").read_text(encoding="utf-8"))


def settled(values: Mapping[str, Any]) -> ExperimentConfig:
    return build(ExperimentConfig, [Layer(label="a file", values=values)])


def test_a_value_is_kept_in_one_form() -> None:
    for name, written, kept in VALUES["kept"]:
        plain: Any = dump(settled(nest({name: written})))
        for part in name.split("."):
            plain = plain[part]
        assert plain == kept


def test_a_value_that_cannot_be_is_refused_with_what_is_expected(snapshot: SnapshotAssertion) -> None:
    told = [refusal(ConfigError, settled, values) for values in VALUES["refused"]]
    assert told == snapshot and "s3cret" not in "".join(told)


def test_what_is_in_force_of_a_retriever_of_the_users_own() -> None:
    own = RetrieverConfig(python="m:f", top_k=3)
    assert own.model_dump(exclude_unset=True) == {"python": "m:f", "top_k": 3}
    assert {"python", "top_k", "candidates", "metadata"} == own.model_dump().keys()


def test_a_second_judge_takes_over_what_fits_its_provider() -> None:
    where = {"base_url": "http://localhost:1/v1", "api_key_env": "KEY"}
    large = {"model": "cohere:large", "sample": 0.1}
    config = {"model": "cohere:small", "second": large, "max_output_tokens": 100, **where}
    first, second = JudgeConfig.model_validate(config).by_tier
    assert (first.model, first.sample, first.second.model) == ("cohere:small", "all", None)
    assert (second.model, second.sample, second.max_output_tokens) == ("cohere:large", 0.1, 100)
    assert (second.base_url, second.api_key_env) == tuple(where.values())
    _, other = JudgeConfig.model_validate(config | {"second": {"model": "openai:x", "sample": "0.05"}}).by_tier
    assert (other.sample, other.base_url, other.api_key_env) == (0.05, None, None)


def test_the_settings_of_indexing_are_the_collections_where_none_are_named() -> None:
    recorded = {"context": "title", "splitter": "sections", "max_tokens": 128, "merge_small": True}
    assert IndexSettings(max_tokens=64).over({}).named == {**DEFAULTS, "max_tokens": 64}
    assert IndexSettings(context="path").over(recorded).named == {**recorded, "context": "path"}
    assert IndexSettings().over({**recorded, "overlap": 8}).named == recorded, "of an earlier version"
    assert recorded_settings({}) == {}
    assert recorded_settings({"embedding": {}, "index": {"max_tokens": 64}}) == {**DEFAULTS, "max_tokens": 64}


# Notations


@given(st.integers(-1000, 1000), st.integers(0, 200), st.integers(1, 500), st.integers(0, 6))
def test_a_range_is_exact_in_decimals(first: int, steps: int, step: int, places: int) -> None:
    exact = [round((first + step * number) / 10**places, places) for number in range(steps + 1)]
    assert numbers(f"{exact[0]:.{places}f}:{exact[-1]:.{places}f}:{step / 10**places:.{places}f}") == tuple(exact)


NO_RANGES: list[Any] = [
    "0:1:0.3", "2:1", "1:2:0", "5:1:-1", "a", "", "1,,2", "nan", "1e400", "1" * 5_000, "0:20:1e-999999", "1:2:3:4",
    True, None, "0:1e9",
]  # fmt: skip
NO_CONDITIONS: list[Any] = [
    "", "<= 0.1", ["a >= 0.8", ""], "a >= 0.1, b >= 1, a <= 0.9", "a ", "a => 0.8", "a != 1", "a >= 80%", "a 0.8",
    "a >= low", "a >= " + "1" * 100_000, "a >= 1e999", "a >= nan", "a >= 0x1", {"a": 0.8},
]  # fmt: skip
NO_JSON = ['{"a": 1, "b": 2, "a": 1}', '{\n "a": }', "NaN", "9" * 5_000, "[" * 100_000, '{"a": "\\ud800"}']


def test_what_is_no_range_no_condition_and_no_json_is_told_with_what_was_found(snapshot: SnapshotAssertion) -> None:
    readers: dict[Callable[[Any], object], Any] = {numbers: NO_RANGES, conditions: NO_CONDITIONS, load_json: NO_JSON}
    told = [refusal(ValueError, reads, written) for reads, refused in readers.items() for written in refused]
    assert told == snapshot
    assert max(map(len, told)) < 300
    assert load_json('{"a": [1, -1.5e3, "\\ud83e\\udd16"], "b": {}}') == {"a": [1, -1500.0, "🤖"], "b": {}}


@given(st.from_regex(r"\A(?:[ab/.]|[ab][*+?]|\([ab]\|[ab]\)){0,6}\Z"), st.text("ab/\n", max_size=12))
def test_a_pattern_of_golden_data_finds_what_the_standard_library_finds(pattern: str, text: str) -> None:
    assert found(pattern, text) == bool(re.search(pattern, text))


def test_no_pattern_hangs_and_one_that_cannot_be_read_is_told() -> None:
    begun = time.process_time()
    assert not found(r"(a|aa)+$", "a" * 100_000 + "b") and not found(r"(.*,){20}x", "1," * 5_000)
    assert time.process_time() - begun < 1
    for pattern in ("(", "(?=a)", r"(a)\1", "a{1001}", "(" * 5_000, "a\ud800"):
        with pytest.raises(ValueError):
            compiled(pattern)


# Files


@pytest.mark.parametrize("preset", sorted(PRESETS.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_packaged_experiments_are_in_order_and_need_nothing_of_the_environment(preset: Path) -> None:
    config = ExperimentConfig.load(preset)
    assert choose([*config.metrics, *config.criteria], config.latency.concurrency)
    assert load_golden(config.dataset).cases and config.sources.dir and config.sources.dir.is_dir()
    assert (config.retriever.store.path, config.tracking.uri) == (ROOT / ".qdrant", None)
    assert load_config(parser().parse_args(["--config", preset.stem]), {}) == config
    changes = {"dataset.split": config.dataset.split, "dataset.ids": ["a"]}, {"dataset.split": "dev"}
    assert [ExperimentConfig.load(preset, change).baseline for change in changes] == [config.baseline, None]
    demands = [metric for metric in config.criteria if metric.startswith("latency/")]
    assert bool(demands) == (preset.stem == "spec"), "a busy machine would fail it, whatever the retriever does"


def test_an_installed_package_has_the_data_inside_and_keeps_all_in_the_users_cache(tmp_path: Path) -> None:
    (tmp_path / "evals" / "datasets").mkdir(parents=True)
    found = named_folders({"XDG_CACHE_HOME": str(tmp_path)}, tmp_path / "evals")
    assert found == {"datasets": tmp_path / "evals" / "datasets", "home": tmp_path / "retrieval-evals"}


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a" / ("r" * 255)
    check_writable(file)
    assert [*tmp_path.rglob("*")] == []
    write(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write(file, "\ud800")
    assert (file.read_text(), [*file.parent.iterdir()]) == ("old", [file])
    for place in (file / "r.json", tmp_path, tmp_path / ("ö" * 128), Path("/dev/null")):
        with pytest.raises(ConfigError, match=r"cannot be written: |expected a file to write, found"):
            check_writable(place)
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(OSError, match=r"No such file|Not a directory"):
        probe(tmp_path / "link")
    make_private(file)
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text() == "old"


def test_a_file_of_the_users_is_read_or_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xef\xbb\xbfa")
    assert read_text(file, "a list", 10) == "a"
    for made, said in ((lambda: file.write_bytes(b"a\xff"), "not UTF-8 .byte 1: "), (file.unlink, "No such")):
        made()
        with pytest.raises(ConfigError, match=said):
            read_text(file, "a list", 10)
    for place in (Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match="expected a list, found a"):
            read_text(place, "a list", 10)
    assert user_path("~nobody-of-that-name/db") == Path("~nobody-of-that-name/db")


def test_nothing_phones_home_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from langsmith import utils

    read: Any = utils.get_env_var
    for name in (*SILENCED, *OFFLINE):
        monkeypatch.setenv(name, "true" if "TRACING" in name else "as the user has it")
    read.cache_clear()
    assert utils.tracing_is_enabled()
    silence(hub=True)
    assert {os.environ[name] for name in OFFLINE} == {"as the user has it"}
    silence(hub=False)
    assert {name: os.environ[name] for name in SILENCED | OFFLINE} == SILENCED | OFFLINE
    read.cache_clear()
    assert not utils.tracing_is_enabled()


def test_the_reference_names_every_setting_and_the_docs_explain_a_whole_experiment(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    names = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert names == {*leaves(ExperimentConfig)}
    text = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    whole = text.partition("## A whole experiment, line by line")[2].partition("```yaml\n")[2].partition("```")[0]
    assert [line for line in whole.splitlines() if " # " not in line] == []
    (tmp_path / "mine.yaml").write_text(whole, encoding="utf-8")
    config = ExperimentConfig.load(tmp_path / "mine.yaml", env={})
    assert config.sweep.threshold[-1] == 0.6 and config.judge.budget.usd == 5
    assert ExperimentConfig.load(settings=dump(config), env={}) == config


# Out of layers: which one wins, what a file and a flag may say, how faults are told


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "retriever.yaml"


def read(file: Path, text: str, **folders: Path) -> Layer:
    file.write_text(text, encoding="utf-8")
    return file_layer(file, RetrieverConfig, folders)


def flags(*arguments: str) -> Layer:
    parser = argparse.ArgumentParser()
    layers.add_flags(parser, RetrieverConfig)
    return layers.flag_layer(parser.parse_args(arguments), RetrieverConfig)


def layer(label: str = "f", **values: Any) -> Layer:
    return Layer(label=label, values=nest({name.replace("__", "."): value for name, value in values.items()}))


def faults(*given: Layer, model: Any = RetrieverConfig) -> list[str]:
    return refusal(ConfigError, build, model, given).splitlines()


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
        ({"store": {"url": "http://h"}}, {"store": {"path": None}}, "store.url", "http://h"),
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
    lower = layer(name="n", retriever__mode="hybrid", seed=3)
    of_experiment = build(ExperimentConfig, [lower, layer(retriever__python="m:f")])
    assert (of_experiment.seed, of_experiment.retriever.model_fields_set) == (3, {"python"})


def test_what_the_default_experiment_is_compared_with_goes_with_its_data() -> None:
    file = layer(baseline="b.json", dataset={"path": "a.jsonl"})
    assert build(ExperimentConfig, [file, layer(seed=1)]).baseline is not None
    for name, value in (("dataset__path", "b.jsonl"), ("dataset__split", "dev")):
        assert build(ExperimentConfig, [file, layer(**{name: value})]).baseline is None


def test_a_relative_path_starts_at_the_folder_of_its_file(file: Path) -> None:
    for written, path in (
        ("db", "{folder}/db"),
        ("../db", "{folder}/../db"),
        ("/abs/db", "/abs/db"),
        ("~/db", "~/db"),
        ("./~/db", "{folder}/~/db"),
        ("data:db", "{folder}/elsewhere/db"),
        ("date:db", "{folder}/date:db"),
    ):
        found = read(file, f"store: {{path: '{written}'}}", data=file.parent / "elsewhere").values["store"]["path"]
        assert found == path.replace("{folder}/..", str(file.parent.parent)).format(folder=file.parent)


def test_the_tilde_is_the_users_home_wherever_a_path_comes_from(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    for named in (read(file, "store: {path: ~/db}"), flags("--store.path", "~/db")):
        assert build(RetrieverConfig, [named]).store.path == Path("/home/ada/db")
    assert build(RetrieverConfig, [flags("--store.path", "db")]).store.path == Path("db")
    for empty in (read(file, "store: {path: ''}"), flags("--store.path", "")):  # an unset variable
        assert faults(empty)[0].startswith("store.path: expected the path of a file or folder, got '' (set by ")


NO_SETTINGS = (
    "top_k: 3\ntop_k: 4", "{store: {path: a, path: b}}", "a: [1", "a: !!python/object:os.system x",
    "threshold: !!int x", "- a", "", "a: \x07",
)  # fmt: skip


def test_a_file_that_is_none_of_settings_is_named_with_its_line(file: Path, snapshot: SnapshotAssertion) -> None:
    assert [refusal(ConfigError, read, file, text).replace(str(file), "FILE") for text in NO_SETTINGS] == snapshot


def test_a_flag_is_written_as_in_a_file_tells_its_default_and_sets_nothing_where_it_is_not_given() -> None:
    parser = argparse.ArgumentParser()
    layers.add_flags(parser, RetrieverConfig)
    assert "most chunks to return (default: 5)" in " ".join(parser.format_help().split())
    assert vars(parser.parse_args([])) == {}
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
    # The setting's own name is its flag as well, once in the help.
    assert flags("--top_k", "3").values == flags("--top_k=3").values == {"top_k": "3"}
    assert "--top_k" not in parser.format_help()


def test_a_flag_that_is_not_yaml_is_named_and_an_empty_variable_or_one_of_another_name_sets_nothing(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"--metadata.map '\{a':1: not valid YAML"):
        flags("--metadata.map", "{a")
    assert faults(flags("--metadata.map", "title"))[0].startswith("metadata.map: Input should be a valid")
    env = environment({"QDRANT_URL": "", "TOP_K": "9", "RAG_RERANK": "mmr"}, file)
    assert environment_layer(env).values == {}


def test_faults_are_told_at_once_with_value_origin_and_nearest_name(file: Path, snapshot: SnapshotAssertion) -> None:
    given = [
        environment_layer({"RAG_DEFAULT_TOP_K": "many"}),
        read(file, "mmr_lambda: 1.5\nstore: {pth: x}\ncolection: y\nkeyword_weight: 0.3\n"),
        flags("--candidates", "0"),
    ]
    assert sorted(fault.replace(str(file), "FILE") for fault in faults(*given)) == snapshot
    assert faults(layer("low", top_k=3), layer("high", top_k=0))[0].endswith("got 0 (set by high)")


def test_a_secret_in_an_address_is_not_printed() -> None:
    for setting in ("store__url", "embedding__base_url"):
        for address in ("http://user:pa/s3cret@h:6333", "http://s3cret@h", "http://h?key=s3cret"):
            (fault,) = faults(layer(**{setting: address}))
            assert fault.startswith(setting.replace("__", ".")) and "s3cret" not in fault


def test_an_address_among_the_options_of_a_model_is_refused_unseen() -> None:
    for name in ("base_url", "openai_api_base", "endpoint"):
        (fault,) = faults(layer(embedding={"options": {name: "https://u:s3cret@h"}}))
        assert f"{name} is an address; expected it in base_url" in fault and "s3cret" not in fault


def test_a_key_in_place_of_its_variable_is_refused_unseen() -> None:
    for key in ("sk-0123456789abcdef", "x7KdQ2mZp8Lr4TnV9sWb3HcY6fJg1AeR5uXo0iBt", "A" * 32, "", 5):
        (fault,) = faults(layer(judge={"api_key_env": key}), model=ExperimentConfig)
        assert fault.endswith("such as COHERE_API_KEY, and not the key itself (set by f)")
        assert str(key) not in fault or not key
    assert layers.api_key({"K": " abc\n"}, "K") == "abc" and layers.api_key({}, "K") is None


# Names of earlier versions

REMOVED: dict[str, str] = yaml.safe_load(
    files("retrievers.config").joinpath("removed.yaml").read_text(encoding="utf-8")
)
OF_EXPERIMENTS = ("judge", "sweep", "tracking", "objective", "index", "sources", "determinism", "latency")


def calls(name: str, file: Path) -> list[list[object]]:
    """Return the commands that have what was removed, a setting both in a file and as a flag."""
    if name.startswith("retrieval-evals "):
        return [[*shlex.split(name)[1:], "something"]]
    if "/" in name:
        return [["run", "--metrics", name.replace("_at_K", "_at_5")]]
    setting, _, value = name.partition("=")
    path = setting if setting.partition(".")[0] in OF_EXPERIMENTS else f"retriever.{setting}"
    file.write_text(yaml.safe_dump(nest({path: value or 1})))
    return [["run", "--config", file], ["run", f"--{path.replace('_', '-')}", value or "1"]]


@pytest.mark.parametrize("name", [name for name in REMOVED if not name.startswith("--")])
def test_what_went_names_its_successor(name: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in calls(name, file):
        done = call(main, arguments, capsys)
        assert (done.code, REMOVED[name] in done.err) == (2, True), done.err
        if name.startswith("retrieval-evals "):
            assert done.err.count("\n") == 1
        elif "/" not in name:
            assert re.split("[.=]", name)[0].replace("_", "-") in done.err.replace("_", "-")
