"""Tables of values: what each setting takes, and what is said of what it does not."""

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion

from evals.cases.reading import load_golden
from evals.config.experiment import ExperimentConfig
from evals.config.files import PRESETS, check_writable, named_folders, probe, write
from evals.config.judge import JudgeConfig
from evals.config.patterns import compiled, found
from evals.config.telemetry import OFFLINE, SILENCED, silence
from evals.config.values import conditions, numbers
from evals.metrics import choose
from evals.run import load_config, parser
from retrievers.config import IndexSettings, RetrieverConfig, dump
from retrievers.config.files import load_json, make_private, read_text, user_path
from retrievers.config.indexing import DEFAULTS, recorded_settings
from retrievers.config.layers import Layer, build, leaves, nest
from retrievers.errors import ConfigError

ROOT = Path(__file__).parents[2]
VALUES = yaml.safe_load(Path(__file__).with_name("values.yaml").read_text(encoding="utf-8"))


def read(values: Mapping[str, Any]) -> ExperimentConfig:
    return build(ExperimentConfig, [Layer(label="a file", values=values)])


def test_a_value_is_kept_in_one_form() -> None:
    for name, written, kept in VALUES["kept"]:
        plain: Any = dump(read(nest({name: written})))
        for part in name.split("."):
            plain = plain[part]
        assert plain == kept


def test_a_value_that_cannot_be_is_refused_with_what_is_expected(snapshot: SnapshotAssertion) -> None:
    told = []
    for values in VALUES["refused"]:
        with pytest.raises(ConfigError) as caught:
            read(values)
        told.append(str(caught.value))
    assert told == snapshot
    assert "s3cret" not in "".join(told)


def test_what_is_in_force_of_a_retriever_of_the_users_own_and_of_another_distance() -> None:
    own = RetrieverConfig(python="m:f", top_k=3)
    assert own.model_dump(exclude_unset=True) == {"python": "m:f", "top_k": 3}
    assert {"python", "top_k", "candidates", "metadata"} == own.model_dump().keys()
    dot = RetrieverConfig.model_validate({"store": {"url": "http://h"}, "threshold": 30}).compared_by("dot")
    assert (dot.distance, dot.threshold_scale, dot.model_copy().distance) == ("dot", "dot", "dot")
    with pytest.raises(ValidationError, match="fusion 'weighted' adds scores from 0 to 1, not dot scores"):
        RetrieverConfig(mode="hybrid").compared_by("dot")


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
    recorded = {"context": "title", "splitter": "sections", "max_tokens": 128, "overlap": 8, "merge_small": True}
    assert IndexSettings(max_tokens=64).over({}).named == {**DEFAULTS, "max_tokens": 64}
    assert IndexSettings(context="path").over(recorded).named == {**recorded, "context": "path"}
    with pytest.raises(ConfigError, match=r"less than index.max_tokens, which is 32, got 100"):
        IndexSettings(overlap=100).over({**DEFAULTS, "max_tokens": 32})
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
NO_JSON = [
    '{"a": 1, "b": 2, "a": 1}',
    '{\n "a": }', "NaN", "9" * 5_000, "[" * 100_000, '{"a": "\\ud800"}'
]  # fmt: skip


def test_what_is_no_range_no_condition_and_no_json_is_told_with_what_was_found(snapshot: SnapshotAssertion) -> None:
    told = []
    readers: dict[Callable[[Any], object], Any] = {numbers: NO_RANGES, conditions: NO_CONDITIONS, load_json: NO_JSON}
    for read, refused in readers.items():
        for written in refused:
            with pytest.raises(ValueError) as caught:
                read(written)
            told.append(str(caught.value))
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
    for made, said in ((lambda: file.write_bytes(b"a\xff"), "can't decode byte 0xff"), (file.unlink, "No such")):
        made()
        with pytest.raises(ConfigError, match=said):
            read_text(file, "a list", 10)
    for place in (Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match="expected a list, found a"):
            read_text(place, "a list", 10)
    with pytest.raises(ValueError, match="expected "):
        user_path("~nobody-of-that-name")


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


def test_the_reference_is_current_and_the_whole_experiment_of_the_docs_can_be_and_is_explained(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == run_path(str(ROOT / ".ci" / "settings_page.py"))["page"](), "run make schema"
    names = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert names == {*leaves(ExperimentConfig)}
    text = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    whole = text.partition("## A whole experiment, line by line")[2].partition("```yaml\n")[2].partition("```")[0]
    assert [line for line in whole.splitlines() if " # " not in line] == []
    (tmp_path / "mine.yaml").write_text(whole, encoding="utf-8")
    config = ExperimentConfig.load(tmp_path / "mine.yaml", env={})
    assert config.sweep.threshold[-1] == 0.6 and config.judge.budget.usd == 5
    assert ExperimentConfig.load(settings=dump(config), env={}) == config
