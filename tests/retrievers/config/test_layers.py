"""Settings out of layers: which layer wins, what a file may say, how faults are told."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.config.experiment import ExperimentConfig
from retrievers.config import EmbeddingConfig, RetrieverConfig, dump
from retrievers.config.layers import (
    ENVIRONMENT,
    Layer,
    add_flags,
    api_key,
    build,
    environment,
    environment_layer,
    file_layer,
    flag_layer,
    flatten,
    leaves,
    nest,
)
from retrievers.errors import ConfigError

LAYERS = (".env", "environment", "file", "flags")


def yaml(folder: Path, text: str) -> Path:
    file = folder / "retriever.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def flags(*arguments: str) -> Layer:
    parser = argparse.ArgumentParser()
    add_flags(parser, RetrieverConfig)
    return flag_layer(parser.parse_args(arguments), RetrieverConfig)


def faults(*layers: Layer) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        build(RetrieverConfig, layers)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("given", [LAYERS[:n] for n in range(5)])
def test_the_highest_layer_that_speaks_wins(given: tuple[str, ...], tmp_path: Path) -> None:
    """Default 5; `.env` 11; environment 12; file 13; flag 14."""
    dotenv = tmp_path / ".env"
    dotenv.write_text("RAG_DEFAULT_TOP_K=11\nRAG_DEFAULT_COLLECTION=only_here\n" if ".env" in given else "")
    env = environment({"RAG_DEFAULT_TOP_K": "12"} if "environment" in given else {}, dotenv)
    layers = [environment_layer(env)]
    layers += [file_layer(yaml(tmp_path, "top_k: 13"), RetrieverConfig)] if "file" in given else []
    layers += [flags("--top-k", "14")] if "flags" in given else []
    config = build(RetrieverConfig, layers)
    assert config.top_k == [5, 11, 12, 13, 14][len(given)]
    assert config.collection == ("only_here" if ".env" in given else "physical_ai_handbook")


def test_null_as_a_flag_unsets_a_setting_that_may_be_left_out(tmp_path: Path) -> None:
    file = file_layer(yaml(tmp_path, "store: {url: 'http://localhost:6333'}"), RetrieverConfig)
    assert build(RetrieverConfig, [file]).store.url is not None
    assert build(RetrieverConfig, [file, flags("--store.url", "null")]).store.url is None
    assert "got 'null'" in "".join(faults(flags("--top-k", "null")))


DEFAULTS: dict[str, float] = {"top_k": 5, "semantic_weight": 0.7, "candidates": 100, "store.timeout_s": 10.0}
VALUES: dict[str, list[float]] = {
    "top_k": [1, 2, 3, 4],
    "semantic_weight": [0.1, 0.2, 0.4, 0.5],
    "candidates": [10, 11, 12, 13],
}
VALUES |= {"store.timeout_s": [1, 2, 3, 4]}


@given(st.lists(st.sets(st.sampled_from(sorted(DEFAULTS))), max_size=4))
def test_every_setting_comes_from_the_last_layer_that_names_it(named: list[set[str]]) -> None:
    layers = [
        Layer(label=str(place), values=nest({name: VALUES[name][place] for name in names}))
        for place, names in enumerate(named)
    ]
    expected = dict(DEFAULTS)
    for place, names in enumerate(named):
        expected |= {name: VALUES[name][place] for name in names}
    flat = dict(flatten(build(RetrieverConfig, layers).model_dump()))
    assert {name: flat[name] for name in DEFAULTS} == expected


def test_each_variable_sets_its_setting() -> None:
    env = {
        "QDRANT_URL": "http://h:1",
        "RAG_DEFAULT_COLLECTION": "c",
        "RAG_DEFAULT_TOP_K": "7",
        "RAG_SIMILARITY_THRESHOLD": "0.5",
        "RAG_SEARCH_MODE": "semantic",
    }
    config = build(RetrieverConfig, [environment_layer(env)])
    assert set(env) == set(ENVIRONMENT)
    assert (config.store.url, config.collection, config.top_k, config.threshold) == ("http://h:1", "c", 7, 0.5)


def test_an_empty_variable_is_as_good_as_none_and_hides_the_dotenv_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("QDRANT_URL=http://h\nCOHERE_API_KEY='k'\n")
    env = environment({"QDRANT_URL": ""}, tmp_path / ".env")
    assert env["COHERE_API_KEY"] == "k"
    assert environment_layer(env).values == {}


def test_a_missing_dotenv_file_is_none(tmp_path: Path) -> None:
    assert environment({"A": "b"}, tmp_path / ".env") == {"A": "b"}


def test_variables_can_be_put_below_a_prefix() -> None:
    layer = environment_layer({"RAG_DEFAULT_TOP_K": "7", "OTHER": "x"}, "retriever.")
    assert layer.values == {"retriever": {"top_k": "7"}}


@pytest.mark.parametrize(
    ("lower", "higher", "store"),
    [
        ({"url": "http://h"}, {"path": "/p"}, (None, "/p")),
        ({"path": "/p"}, {"url": "http://h"}, ("http://h", None)),
        ({"url": "http://h"}, {"path": None}, ("http://h", None)),
        ({"url": "http://h"}, {"timeout_s": 3}, ("http://h", None)),
        ({"url": "http://h"}, {"url": "http://i"}, ("http://i", None)),
        ({"path": "/p"}, {"url": None, "path": "/q"}, (None, "/q")),
    ],
)
def test_a_higher_choice_of_the_store_replaces_the_lower_one(
    lower: dict[str, Any], higher: dict[str, Any], store: tuple[str | None, str | None]
) -> None:
    layers = [Layer(label="low", values={"store": lower}), Layer(label="high", values={"store": higher})]
    found = build(RetrieverConfig, layers).store
    assert (found.url, None if found.path is None else str(found.path)) == store


def test_an_address_in_the_environment_does_not_redirect_a_file_with_a_folder(tmp_path: Path) -> None:
    layers = [
        environment_layer({"QDRANT_URL": "http://production:6333"}),
        file_layer(yaml(tmp_path, "store: {path: db}"), RetrieverConfig),
    ]
    store = build(RetrieverConfig, layers).store
    assert (store.url, store.path) == (None, tmp_path / "db")


def test_both_in_one_layer_are_refused() -> None:
    assert faults(Layer(label="f.yaml", values={"store": {"url": "http://h", "path": "p"}})) == [
        "store: give either url or path, got both: url='http://h', path='p' (set by f.yaml)"
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [("db", "{folder}/db"), ("../db", "{parent}/db"), ("/abs/db", "/abs/db"), (".", "{folder}")],
)
def test_a_relative_path_in_a_file_is_taken_from_its_folder(written: str, expected: str, tmp_path: Path) -> None:
    layer = file_layer(yaml(tmp_path, f"store: {{path: {written}}}"), RetrieverConfig)
    assert layer.values == {"store": {"path": expected.format(folder=tmp_path, parent=tmp_path.parent)}}


@pytest.mark.parametrize(
    ("written", "expected"),
    [("data:db", "{data}/db"), ("data:", "{data}"), ("date:db", "{folder}/date:db"), ("./data:db", "{folder}/data:db")],
)
def test_a_path_in_a_file_may_begin_with_the_name_of_a_folder(written: str, expected: str, tmp_path: Path) -> None:
    data = tmp_path / "elsewhere"
    layer = file_layer(yaml(tmp_path, f"store: {{path: '{written}'}}"), RetrieverConfig, {"data": data})
    assert layer.values == {"store": {"path": expected.format(folder=tmp_path, data=data)}}


def test_a_tilde_is_the_users_home_wherever_a_path_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    written = file_layer(yaml(tmp_path, "store: {path: ~/db}"), RetrieverConfig)
    assert build(RetrieverConfig, [written]).store.path == Path("/home/ada/db")
    given = build(RetrieverConfig, [flags("--store.path", "~/db", "--cache.path", "~")])
    assert (given.store.path, given.cache.path) == (Path("/home/ada/db"), Path("/home/ada"))
    here = file_layer(yaml(tmp_path, "store: {path: ./~/db}"), RetrieverConfig)
    assert build(RetrieverConfig, [here]).store.path == tmp_path / "~" / "db"


def test_the_home_of_nobody_is_refused() -> None:
    assert faults(flags("--store.path", "~nobody-of-that-name/db")) == [
        "store.path: there is no home folder for '~nobody-of-that-name'; write the path out, "
        "got '~nobody-of-that-name/db' (set by the command line)"
    ]


def test_a_relative_path_in_a_flag_is_taken_as_it_is() -> None:
    assert build(RetrieverConfig, [flags("--store.path", "db")]).store.path == Path("db")


@pytest.mark.parametrize("written", ["none", "null"])
def test_no_threshold_is_one_that_was_chosen(tmp_path: Path, written: str) -> None:
    file = file_layer(yaml(tmp_path, "threshold: 0.28\n"), RetrieverConfig)
    chosen = build(RetrieverConfig, [file, flags("--threshold", written)])
    assert chosen.used_threshold is None
    assert RetrieverConfig.model_validate(chosen.model_dump()).used_threshold is None
    of_file = file_layer(yaml(tmp_path, f"threshold: {written}\n"), RetrieverConfig)
    assert build(RetrieverConfig, [of_file]).used_threshold is None


def test_every_fault_is_told_at_once_with_its_origin(tmp_path: Path) -> None:
    file = yaml(tmp_path, "threshold: 1.5\nstore: {pth: x}\ncolection: y\n")
    layers = [
        environment_layer({"RAG_DEFAULT_TOP_K": "many"}),
        file_layer(file, RetrieverConfig),
        flags("--candidates", "0"),
    ]
    assert sorted(faults(*layers)) == [
        "candidates: Input should be greater than or equal to 1, got '0' (set by the command line)",
        f"colection: unknown setting (set by {file}:3); did you mean 'collection' or 'vector_name'?",
        f"store.pth: unknown setting (set by {file}:2); did you mean 'store.path' or 'store.wait_s' or 'store.url'?",
        "threshold: expected a number from 0 to 1; one on dot products needs distance: dot beside it"
        f", got 1.5 (set by {file}:1)",
        "top_k: Input should be a valid integer, unable to parse string as an integer, got 'many' "
        "(set by the environment)",
    ]


def test_the_origin_is_the_layer_whose_value_counted() -> None:
    layers = [Layer(label="low", values={"top_k": 3}), Layer(label="high", values={"top_k": 0})]
    assert faults(*layers) == ["top_k: Input should be greater than or equal to 1, got 0 (set by high)"]


def test_a_fault_between_settings_names_both_values() -> None:
    assert faults(Layer(label="f", values={"top_k": 50, "candidates": 10})) == [
        "settings: top_k is 50 and exceeds the candidate depth 10; raise candidates or lower top_k"
    ]


def test_an_unknown_field_in_the_map_names_the_nearest() -> None:
    (fault,) = faults(Layer(label="f", values={"metadata": {"map": {"titel": "t"}}}))
    assert fault == "metadata.map: 'titel' is not a field of a chunk; did you mean 'title'? (set by f)"


@pytest.mark.parametrize(
    "address",
    [
        "http://user:s3cret@h:6333",
        "http://s3cret@h",
        "http://h?key=s3cret",
        "http://user:pa/s3cret@h",
        "user:s3cret@h",
        "h?key=http://s3cret@x",
    ],
)
@pytest.mark.parametrize("setting", ["store.url", "embedding.base_url"])
def test_a_secret_in_an_address_is_not_printed(address: str, setting: str) -> None:
    (fault,) = faults(Layer(label="f", values=nest({setting: address})))
    assert fault.startswith(f"{setting}: ")
    assert "s3cret" not in fault


def test_a_mapping_replaces_the_entries_below_it_and_the_other_way_round() -> None:
    some = Layer(label="some", values={"metadata": {"map": {"title": "t"}}})
    none = Layer(label="none", values={"metadata": {"map": {}}})
    assert build(RetrieverConfig, [some, none]).metadata.map == {}
    assert build(RetrieverConfig, [none, some]).metadata.map == {"title": "t"}


def test_a_value_above_a_mapping_replaces_it_as_a_whole() -> None:
    (fault,) = faults(
        Layer(label="low", values={"store": {"path": "p"}}), Layer(label="high", values={"store": "somewhere"})
    )
    assert fault.startswith("store: Input should be a valid dictionary") and fault.endswith("(set by high)")


TABLES: dict[str, Any] = {
    "filters": {"metadata.source_url": "/a", "tags": {"contains": "b"}, "n": {"gte": 5}},
    "abbreviations": {"e.g.": "for example", "R&D": "research"},
    "keyword": {"synonyms": {"node.js": ["javascript"], "C++": ["cpp"]}},
}


def tables_of(layers: list[Layer]) -> dict[str, Any]:
    config = build(RetrieverConfig, layers).model_dump(mode="json")
    return {**{name: config[name] for name in ("filters", "abbreviations")}, "keyword": config["keyword"]["synonyms"]}


def test_a_users_own_keys_may_hold_dots(tmp_path: Path) -> None:
    file = yaml(tmp_path, json.dumps(TABLES))
    as_flags = flags(
        *("--filters", json.dumps(TABLES["filters"]), "--abbreviations", json.dumps(TABLES["abbreviations"])),
        *("--keyword.synonyms", json.dumps(TABLES["keyword"]["synonyms"])),
    )
    expected = {**TABLES, "keyword": TABLES["keyword"]["synonyms"]}
    assert tables_of([file_layer(file, RetrieverConfig)]) == expected
    assert tables_of([as_flags]) == expected


@pytest.mark.parametrize("higher", [{"tags": "a"}, "tags = a", {"n": {"lt": 9}}])
def test_a_filter_set_higher_up_replaces_the_lower_one_as_a_whole(higher: Any) -> None:
    layers = [Layer(label="low", values=TABLES), Layer(label="high", values={"filters": higher})]
    assert tables_of(layers)["filters"] == higher
    assert tables_of(layers[::-1])["filters"] == TABLES["filters"]


def test_a_table_of_words_set_higher_up_replaces_the_lower_one_as_a_whole() -> None:
    high = {"abbreviations": {"IMU": "sensor"}, "keyword": {"synonyms": {}, "language": "german"}}
    found = tables_of([Layer(label="low", values=TABLES), Layer(label="high", values=high)])
    assert (found["abbreviations"], found["keyword"]) == ({"IMU": "sensor"}, {})


def test_a_fault_in_a_table_names_where_it_was_set() -> None:
    (fault,) = faults(Layer(label="f", values={"filters": {"a.b": {"near": 1}}}))
    assert fault.startswith("filters: filters.a.b: unknown operator 'near'") and fault.endswith("(set by f)")


@pytest.mark.parametrize(
    ("raw", "filters"),
    [
        ("module = a", "module = a"),
        ('title = "ROS 2: topics #1"', 'title = "ROS 2: topics #1"'),
        ("[module]", "[module]"),
        ("5", "5"),
        ("", ""),
        ("{module: a, n: {gte: 5}, draft: true, v: '5'}", {"module": "a", "n": {"gte": 5}, "draft": True, "v": "5"}),
        (' {"n": [1, 2.5]}', {"n": [1, 2.5]}),
    ],
)
def test_a_filter_on_the_command_line_is_text_or_a_mapping_in_braces(raw: str, filters: Any) -> None:
    assert flags("--filters", raw).values == {"filters": filters}


def test_a_filter_in_braces_that_is_not_yaml_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--filters: '\{a' is not valid YAML"):
        flags("--filters", "{a")


def test_every_setting_has_a_flag_with_its_default_in_the_help() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, RetrieverConfig)
    shown = " ".join(parser.format_help().split())
    assert {f"--{name.replace('_', '-')}" for name in leaves(RetrieverConfig)} <= set(shown.split())
    assert "most chunks to return (default: 5)" in shown
    assert "(default: the usual ones that the collection has)" in shown


def test_flags_not_given_say_nothing() -> None:
    assert flags().values == {}


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (["--metadata.required", "title, url"], {"metadata": {"required": ["title", "url"]}}),
        (["--metadata.required", "[title, url]"], {"metadata": {"required": ["title", "url"]}}),
        (["--metadata.required", "title"], {"metadata": {"required": ["title"]}}),
        (["--metadata.required", "*"], {"metadata": {"required": ["*"]}}),
        (["--metadata.required", "*, title"], {"metadata": {"required": ["*", "title"]}}),
        (["--metadata.required", "[12, yes, '>= 1']"], {"metadata": {"required": ["12", "yes", ">= 1"]}}),
        (["--metadata.map", "{title: t, url: href}"], {"metadata": {"map": {"title": "t", "url": "href"}}}),
        (["--vector-name", "1"], {"vector_name": "1"}),
        (["--embedding.model", "null"], {"embedding": {"model": None}}),
    ],
)
def test_lists_mappings_and_null_are_written_as_yaml(arguments: list[str], values: dict[str, Any]) -> None:
    assert flags(*arguments).values == values


def test_a_flag_that_is_not_yaml_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--metadata.map: '\{a' is not valid YAML"):
        flags("--metadata.map", "{a")


def test_a_flag_of_the_wrong_shape_is_told_like_any_other() -> None:
    (fault,) = faults(flags("--metadata.map", "title"))
    assert fault.startswith("metadata.map: Input should be a valid") and fault.endswith("(set by the command line)")


@pytest.mark.parametrize(("raw", "key"), [("abc", "abc"), (" abc\n", "abc"), ("", None), (" \n", None), (None, None)])
def test_a_key_is_taken_without_the_line_break_of_its_file(raw: str | None, key: str | None) -> None:
    assert api_key({} if raw is None else {"K": raw}, "K") == key


@pytest.mark.parametrize("key", ["s3cret\nmore", "s3crét", "s3cret\u2019", "s3cret\x00", "s3cret\ud800"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        api_key({"COHERE_API_KEY": key}, "COHERE_API_KEY")
    assert str(caught.value).startswith("COHERE_API_KEY: ")
    assert "s3cr" not in str(caught.value)


TREES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.none(), st.lists(st.integers(), max_size=2), st.just({})),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcd"), TREES, max_size=3))
def test_nesting_undoes_flattening(tree: dict[str, Any]) -> None:
    assert nest(dict(flatten(tree))) == tree


class TestProvider:
    """Another provider's model does not get the address and the prefixes of the one below."""

    BELOW = Layer(
        label="file",
        values={
            "embedding": {
                "model": "openai:e5", "base_url": "http://localhost:8000/v1", "api_key_env": "MINE",
                "query_prefix": "query: ", "dimensions": 64, "options": {"chunk_size": 8},
            },
        },
    )  # fmt: skip

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--embedding.model", "cohere:embed-english-v3.0"),
            ("--embedding.provider", "cohere", "--embedding.model", "embed-english-v3.0"),
        ],
    )
    def test_another_takes_nothing(self, arguments: tuple[str, ...]) -> None:
        made = build(RetrieverConfig, [self.BELOW, flags(*arguments)]).embedding
        expected = EmbeddingConfig(provider="cohere", model="embed-english-v3.0")
        assert dump(made) == dump(expected)

    @pytest.mark.parametrize("model", ["openai:other", "other"])
    def test_another_model_of_the_same_keeps_all(self, model: str) -> None:
        made = build(RetrieverConfig, [self.BELOW, flags("--embedding.model", model)]).embedding
        assert (made.label, made.base_url, made.dimensions) == ("openai:other", "http://localhost:8000/v1", 64)

    def test_another_judge_has_its_own_address(self) -> None:
        below = Layer(label="file", values={"judge": {"model": "openai:x", "base_url": "http://h/v1", "identity": "i"}})
        above = Layer(label="flags", values={"judge": {"model": "cohere:command"}})
        made = build(ExperimentConfig, [below, above]).judge
        assert (made.model, made.base_url, made.identity) == ("cohere:command", None, None)


class TestForeign:
    """A retriever of the user's own stands in place of what lower layers say of another."""

    BELOW = Layer(
        label="file",
        values={
            "store": {"path": "/s"}, "collection": "c", "mode": "hybrid", "embedding": {"provider": "cohere"},
            "threshold": 0.7, "top_k": 8, "candidates": 50, "metadata": {"nested_under": "m"}, "filters": "a = 1",
        },
    )  # fmt: skip

    def test_replaces_all_but_how_much_is_read_and_what_it_is_called(self) -> None:
        made = build(RetrieverConfig, [self.BELOW, flags("--python", "m:f")])
        assert (made.python, made.top_k, made.candidates, made.metadata.nested_under) == ("m:f", 8, 50, "m")
        assert made.model_fields_set == {"python", "top_k", "candidates", "metadata"}

    def test_what_is_said_beside_or_above_it_is_about_it(self) -> None:
        made = build(RetrieverConfig, [self.BELOW, flags("--python", "m:f", "--collection", "d", "--top-k", "2")])
        assert (made.collection, made.top_k, made.names_collection) == ("d", 2, True)
        above = [Layer(label="file", values={"python": "m:f"}), flags("--vector-name", "v")]
        assert "vector_name cannot be set for python 'm:f'" in faults(*above)[0]

    def test_is_not_changed_by_the_environment_but_for_top_k(self) -> None:
        env = {name: "9" if "TOP_K" in name else "0.9" if "THRES" in name else "hybrid" for name in ENVIRONMENT}
        made = build(RetrieverConfig, [environment_layer(env), Layer(label="file", values={"python": "m:f"})])
        assert made.model_fields_set == {"python", "top_k"}

    def test_of_an_experiment_only_the_retriever_is_replaced(self) -> None:
        below = Layer(label="file", values={"name": "n", "retriever": {"mode": "hybrid"}, "seed": 3})
        above = Layer(label="flags", values={"retriever": {"python": "m:f"}})
        made = build(ExperimentConfig, [below, above])
        assert (made.name, made.seed, made.retriever.model_fields_set) == ("n", 3, {"python"})
