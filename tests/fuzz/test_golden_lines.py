from pathlib import Path
from random import Random

import pytest

from evals.cases.reading import load_golden
from evals.config.experiment import DatasetConfig
from evals.config.patterns import found
from tests.support.fuzz import fuzz, mutated

SEEDS = (
    '{"id": "a", "query": "How fast?", "evidence": [{"source_url": "/docs/a", "quote": "fast", "grade": 3}]}',
    '{"id": "b", "query": "Weather?", "in_scope": false, "min_results": 1, "split": "dev"}\n'
    '{"id": "c", "query": "Arms", "relevant_ids": {"d1": 2, "d2": 0}, "expected_topics": ["arm"]}',
    '{"id": "d", "query": "q", "reference_answer": "r", "evidence": [{"source_url": "/docs/a", "heading": "H"}], '
    '"human_verdicts": {"3f2a": 1}, "source_url_pattern": "^/docs/[a-z]+$"}',
)
WORDS = ("\\ud800", "\\u0000", "null", "true", "NaN", "1e999", "-1", '"id": ', '"query": ', '{"a": ', "a{99}", "(?=")
TOKENS = (*'{}[]",:9(\\\n', *WORDS, "word ", "+)+")
TABLES = (
    "query,quote,tags,grade,in_scope\nHow fast?,ten rpm,\"['a', 'b']\",3,\nWho?,,x;y,,no\n",
    'user_input;reference_contexts;reference\nHow fast?;"[\'ten\', ""it\'s""]";ten\n',
    '[{"query": "a", "relevant_ids": ["x"]},\n {"query": "b", "in_scope": false}]',
)
BEIR = ('{"_id": "1", "text": "one"}\n{"_id": "2", "text": "two", "metadata": {}}',)


@pytest.mark.slow
def test_any_file_is_golden_data_or_refused(tmp_path: Path) -> None:
    def read(made: tuple[str, bytes]) -> None:
        file = tmp_path / made[0]
        file.write_bytes(made[1])
        for case in load_golden(DatasetConfig(path=file)).cases:
            if case.source_url_pattern:
                found(case.source_url_pattern, "/docs/" + "a-" * 200)

    def make(random: Random) -> tuple[str, bytes]:
        name = random.choice(("golden.jsonl", "golden.jsonl", "golden.csv", "golden.json"))
        return name, encoded(mutated(random, TABLES if name == "golden.csv" else (*SEEDS, *TABLES[2:]), TOKENS))

    fuzzed = fuzz(read, make)
    assert fuzzed.read > 1_000 and fuzzed.refused > 1_000


@pytest.mark.slow
def test_any_test_collection_is_imported_or_refused(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()

    def make(random: Random) -> tuple[bytes, bytes]:
        judgements = mutated(random, ["1\td\t1\n2\td\t1"], ["\t", " ", "\n", "9", "-", "d"])
        return encoded(mutated(random, BEIR, TOKENS)), encoded(judgements)

    def read(made: tuple[bytes, bytes]) -> None:
        (tmp_path / "queries.jsonl").write_bytes(made[0])
        (tmp_path / "qrels" / "test.tsv").write_bytes(made[1])
        load_golden(DatasetConfig(path=tmp_path))

    fuzzed = fuzz(read, make)
    assert fuzzed.read > 500 and fuzzed.refused > 1_000


def encoded(text: str) -> bytes:
    """UTF-8, in which half of a surrogate pair is no character."""
    return text.encode("utf-8", "surrogatepass")
