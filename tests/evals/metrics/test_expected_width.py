"""Expected widths against intervals of means that are really drawn."""

import numpy as np
import pytest

from evals.collect.observations import Observation
from evals.judge.precision import average_precision
from evals.metrics.expected_width import agreement, expected_widths
from evals.stats.corrected_mean import corrected_mean
from tests.support.results import hit, observation

RNG = np.random.default_rng(0)
LABELS = RNG.random((120, 4)) < 0.4


def query(number: int) -> Observation:
    useful = {"elsewhere": 1, **{f"c{place}": 1 for place in range(4) if LABELS[number, place]}}
    return observation(f"q{number}", [hit(place + 1, 0.9, f"c{place}") for place in range(4)], 4, useful)


RUN = [query(number) for number in range(120)]


def test_the_width_is_that_of_intervals_that_are_drawn() -> None:
    widths = []
    proxy = np.array([average_precision(row.astype(int).tolist()) for row in LABELS])
    for _ in range(40):
        said = LABELS ^ (RNG.random(LABELS.shape) < 0.07)
        judged = np.array([average_precision(row.astype(int).tolist()) for row in said])
        interval = corrected_mean(judged, proxy, RNG.permutation(120) < 40).interval
        assert interval.low is not None and interval.high is not None
        widths.append(interval.high - interval.low)
    [expected] = expected_widths(RUN, {}, [40], 0)
    assert expected == pytest.approx(np.mean(widths), rel=0.15)


def test_more_queries_make_it_narrower_and_too_few_have_none() -> None:
    few, *widths = expected_widths(RUN, {}, [5, 12, 24, 60, 120], 0)
    assert few is None and widths == sorted(widths, key=lambda width: -(width or 0.0))
    assert expected_widths(RUN[:5], {}, [2, 5], 0) == [None, None]


def test_stored_verdicts_tell_how_far_judge_and_labels_agree() -> None:
    keys = [((f"q{n}", f"c{place}"), int(LABELS[n, place])) for n in range(20) for place in range(4)]
    right, wrong = dict(keys), {key: 1 - label for key, label in keys}
    assert agreement(RUN, right) == 1.0 and agreement(RUN, wrong) == 0.0
    assert agreement(RUN, dict(keys[:29])) is None
    [good], [usual] = expected_widths(RUN, right, [40], 0), expected_widths(RUN, {}, [40], 0)
    assert good is not None and usual is not None and good < usual
