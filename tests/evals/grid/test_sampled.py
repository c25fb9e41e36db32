"""Means of a judged sample: as the estimator says, with the bounds that unjudged and failed queries leave."""

import numpy as np
import pytest

from evals.collect.observations import Failure, Score, Unscored
from evals.grid.sampled import sampled_summary
from evals.sampling.order import NOT_DRAWN
from tests.support.scored import metric_of

PRECISION = metric_of("ragas/llm_context_precision")
NO_REFERENCE = Unscored(reason="the case has no reference answer")
LABELS = "labels/context_precision"
FAILED = Failure(type="Timeout", message="")


def drawn(total: int, judged: int, seed: int = 0) -> tuple[list[Score], list[Score]]:
    """Return judged scores of the first queries, and labels of all that mostly agree with them."""
    rng = np.random.default_rng(seed)
    labels = rng.choice([0.0, 0.5, 1.0], total)
    scores = np.clip(labels + rng.normal(0, 0.1, total), 0, 1)
    return [*scores[:judged].tolist(), *[NOT_DRAWN] * (total - judged)], labels.tolist()


def test_what_judging_all_would_give_lies_nearer_than_what_all_users_would() -> None:
    summary = sampled_summary(PRECISION, *drawn(60, 20), LABELS)
    assert summary.ci_low is not None and summary.bound_low is not None and summary.value is not None
    assert summary.ci_low < summary.bound_low < summary.value
    nearly_all = sampled_summary(PRECISION, *drawn(60, 59), LABELS)
    assert nearly_all.bound_low == pytest.approx(nearly_all.bound_high, abs=0.02)


def test_failed_and_impossible_queries_are_counted_apart() -> None:
    scores, labels = drawn(60, 20)
    plain = sampled_summary(PRECISION, scores, labels, LABELS)
    summary = sampled_summary(PRECISION, [FAILED, *scores[1:], NO_REFERENCE], [*labels, 0.0], LABELS)
    assert (summary.n, summary.n_failed, summary.n_unscored) == (19, 1, 1)
    assert summary.sampled is not None and summary.sampled.queries == 60
    assert summary.bound_low is not None and summary.bound_high is not None
    assert plain.bound_low is not None and plain.bound_high is not None
    assert summary.bound_high - summary.bound_low > plain.bound_high - plain.bound_low
