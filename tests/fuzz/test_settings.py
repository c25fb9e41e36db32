from pathlib import Path
from random import Random

import pytest
from yaml import YAMLError

from evals.config.experiment import ExperimentConfig
from retrievers.config.dotenv_file import read_dotenv
from retrievers.config.layers import build, environment_layer
from retrievers.config.settings_file import file_layer
from retrievers.config.yaml_files import load_flag
from tests.support.fuzz import fuzz, mutated

SEEDS = (
    (Path(__file__).parents[2] / "evals" / "config" / "presets" / "default.yaml").read_text(encoding="utf-8"),
    "name: mine\ndataset: {path: golden.jsonl, ids: [a, b], limit: 3}\nretriever:\n  top_k: 5\n  filters: {tags: [a]}",
    "sweep:\n  top_k: 1:20\n  threshold: 0:0.95:0.05\ncriteria: {ranking/mrr_at_10: '>= 0.8'}\nretriever.mode: hybrid",
    "retriever: &r {store: {url: 'http://localhost:6333'}, keyword: {synonyms: {arm: [limb]}}}\nseed: 7\n",
)
VALUES = ("null", "2024-02-30", "0x", "0b", ".inf", ".nan", "1e999", '"\\0"', '"\\ud800"', "'1:9999'", "!!int ")
MARKS = ("  ", ": ", "- ", "- [", "&a ", "*a", "*r, ", "<<: ", "|\n", "? ", "a: &b [*b]", "---\n", "!!python/name:os ")
TOKENS = (*"\n[]{}'\">#%@`~9.", *VALUES, *MARKS, "name: ", "top_k: ", "retriever.", "key: 1\n", "sweep: ")
DOTENV = ("# keys\nexport A=1\nB='two words'\nC=\"${A}-${B}\"\nRAG_DEFAULT_TOP_K=3\nQDRANT_URL=http://h:6333\n",)
DOTENV_MARKS = ("=", "'", '"', "\n", "${A}", "${", "}", ":-", "\\", "A=", "B=", "#", " ", "export ", "$")
FLAGS = ("[a, b]", "{a: 1, b: [c, '*']}", "a, b", '"x"', "ranking/*, content/*")


def encoded(random: Random, seeds: tuple[str, ...], tokens: tuple[str, ...]) -> bytes:
    """A made file, in which half of a surrogate pair is no character."""
    return mutated(random, seeds, tokens, most=3_000).encode("utf-8", "surrogatepass")


@pytest.mark.slow
def test_any_file_is_an_experiment_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        build(ExperimentConfig, [file_layer(file, ExperimentConfig)])

    fuzzed = fuzz(read, lambda random: encoded(random, SEEDS, TOKENS))
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000


@pytest.mark.slow
def test_any_dotenv_file_is_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / ".env"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        build(ExperimentConfig, [environment_layer(read_dotenv(file), "retriever.")])

    fuzzed = fuzz(read, lambda random: encoded(random, DOTENV, DOTENV_MARKS))
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000


@pytest.mark.slow
def test_any_flag_is_read_or_refused() -> None:
    fuzzed = fuzz(load_flag, lambda random: mutated(random, FLAGS, TOKENS, most=2_000), refusals=YAMLError)
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000
