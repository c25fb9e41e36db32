"""Expected widths against intervals of means that are really drawn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Observation
from evals.golden.evidence import Relevance
from evals.judge.call_estimate import NOTHING_STORED, ExpectedWidths
from evals.judge.precision import average_precision
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics import METRICS
from evals.metrics.expected_width import expected_widths
from evals.stats.corrected_mean import corrected_mean
from tests.support.judged import judging
from tests.support.observed import make_context
from tests.support.results import hit, observation

RNG = np.random.default_rng(0)
LABELS = RNG.random((120, 4)) < 0.4


def query(number: int, **changes: Any) -> Observation:
    useful = {"elsewhere": 1, **{f"c{place}": 1 for place in range(4) if LABELS[number, place]}}
    hits = [hit(place + 1, 0.9, f"c{place}") for place in range(4)]
    answer = {"reference_answer": "The first is this. The second is that."}
    return observation(f"q{number}", hits, 4, useful, **(answer | changes))


RUN = [query(number) for number in range(120)]


def expected(
    sizes: Sequence[int], stored: Judging = NOTHING_STORED, run: Sequence[Observation] = RUN, metric: str = PRECISION
) -> ExpectedWidths:
    [widths] = expected_widths({metric: METRICS[metric]}, run, stored, sizes, make_context())
    return widths


def verdicts(said: dict[tuple[str, str], int]) -> Judging:
    return judging(verdicts={key: ChunkVerdict(verdict=value, reason="") for key, value in said.items()})


def test_the_width_is_that_of_intervals_that_are_drawn() -> None:
    widths = []
    proxy = np.array([average_precision(row.astype(int).tolist()) for row in LABELS])
    for _ in range(40):
        said = LABELS ^ (RNG.random(LABELS.shape) < 0.07)
        judged = np.array([average_precision(row.astype(int).tolist()) for row in said])
        interval = corrected_mean(judged, proxy, RNG.permutation(120) < 40).interval
        assert interval.low is not None and interval.high is not None
        widths.append(interval.high - interval.low)
    [width] = expected([40]).widths
    assert width == pytest.approx(np.mean(widths), rel=0.15)


@pytest.mark.parametrize("metric", JUDGED)
def test_more_queries_make_it_narrower_and_too_few_have_none(metric: str) -> None:
    few, *widths = expected([5, 12, 24, 60, 120], metric=metric).widths
    assert few is None and widths == sorted(widths, key=lambda width: -(width or 0.0))
    assert expected([2, 5], run=RUN[:5], metric=metric).widths == (None, None)


def test_stored_verdicts_tell_how_far_judge_and_labels_agree() -> None:
    keys = [((f"q{n}", f"c{place}"), int(LABELS[n, place])) for n in range(40) for place in range(4)]
    right, wrong = (expected([40], verdicts(said)) for said in (dict(keys), {key: 1 - label for key, label in keys}))
    assert (right.answers, right.agreement, wrong.agreement) == (160, 1.0, 0.0)
    few = expected([40], verdicts(dict(keys[:29])))
    assert (few.answers, few.agreement) == (29, None)
    err = dict(zip(dict(keys), (RNG.random(160) < 0.25).tolist(), strict=True))
    poor, usual = expected([40], verdicts({key: label ^ err[key] for key, label in keys})), expected([40])
    assert poor.agreement == pytest.approx(0.75, abs=0.1)
    assert poor.widths[0] is not None and usual.widths[0] is not None and usual.widths[0] < poor.widths[0]


def test_stored_scores_are_taken_as_they_are() -> None:
    """A judge whose scores are all the same leaves nothing open; one that scores at random leaves much."""
    chosen = tuple(f"c{place}" for place in range(4))
    for metric in (RECALL, RELEVANCE, ENTITY_RECALL):
        scores = [0.5] * 120, RNG.integers(0, 2, 120).astype(float).tolist()
        same, chance = (
            expected([40], judging(scores={(metric, f"q{n}", chosen): s for n, s in enumerate(of)}), metric=metric)
            for of in scores
        )
        assert same.answers == chance.answers == 120
        assert (same.widths[0] or 1) < 0.2 and (chance.widths[0] or 0) > 0.25


def test_without_labels_chance_decides_and_a_proxy_says_nothing() -> None:
    bare = [replace(each, relevance=Relevance()) for each in RUN]
    for metric in (PRECISION, RECALL):
        alone, labelled = expected([40], run=bare, metric=metric), expected([40], metric=metric)
        assert (alone.unlabelled, alone.agreement) == (120, None) and (alone.widths[0] or 0) > (labelled.widths[0] or 1)


def test_queries_that_no_judge_can_score_are_left_out() -> None:
    silent = [query(number, reference_answer=None) for number in range(60, 120)]
    assert expected([120], run=[*RUN[:60], *silent]).widths == expected([60], run=RUN[:60]).widths
