"""The judge on a real model, which says the right thing, or in other words, in other keys, without end, or nothing."""

import tempfile
from collections.abc import Iterator

import pytest

from evals.collect.observations import Failure
from evals.config.judge import JudgeConfig
from evals.judge.judge import Judge
from evals.judge.tasks import PRECISION, RELEVANCE
from evals.judge.verdicts import ChunkVerdict, Judging
from tests.support.one_question import CLAIM, USEFUL, USELESS
from tests.support.results import hit, observation
from tests.support.small_model import MODEL, absent, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(absent()), reason=absent()),
]
CHUNKS = [hit(1, 0.9, "useful", text=USEFUL), hit(2, 0.5, "useless", text=USELESS)]
ASKED = observation("arm", CHUNKS, 2, {"useful": 1}, query="How is a pose reached?", reference_answer=CLAIM)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as url:
        yield url


def judged(url: str, metric: str) -> Judging:
    """Judge two chunks with answers of 48 tokens."""
    limits = {"max_output_tokens": 48, "max_concurrency": 2, "timeout_s": 200.0}
    named = {"model": f"openai:{MODEL}", "base_url": url}
    with tempfile.TemporaryDirectory() as folder:
        named["cache_path"] = f"{folder}/verdicts.sqlite"
        judge = Judge.open(JudgeConfig.model_validate(named | limits), {})
        try:
            return judge.judge([metric], [ASKED])
        finally:
            judge.close()


def test_of_a_schema_comes_a_verdict_or_a_failure_that_says_why(url: str) -> None:
    judging = judged(url, PRECISION)
    failed = [one for one in judging.verdicts.values() if isinstance(one, Failure)]
    held = [one for one in judging.verdicts.values() if isinstance(one, ChunkVerdict)]
    assert len(failed) + len(held) == len(CHUNKS) <= judging.usage.calls
    assert judging.usage.failed == len(failed)
    assert all(one.message for one in failed)
    assert {one.verdict for one in held} <= {0, 1}


def test_under_a_schema_comes_a_rating_of_the_scale(url: str) -> None:
    first, second = (judged(url, RELEVANCE) for _ in range(2))
    [score] = first.scores.values()
    assert score in (0, 0.25, 0.5, 0.75, 1) or (isinstance(score, Failure) and score.type == "Malformed")
    assert first.scores == second.scores
