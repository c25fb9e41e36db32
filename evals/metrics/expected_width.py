"""The width of the interval that judging a sample is expected to give, before anything is bought. Pure and seeded."""

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from evals.collect.observations import Observation
from evals.judge.precision import average_precision
from evals.stats.corrected_mean import Floats, shrunk_weight
from evals.stats.intervals import FEWEST
from evals.stats.score_intervals import student

# Agreement of judge and labels where fewer stored verdicts than these tell it.
USUAL_AGREEMENT, FEWEST_VERDICTS = 0.93, 30
# Judges that are made up, over which variances are averaged.
JUDGES = 20


def agreement(observations: Sequence[Observation], verdicts: Mapping[tuple[str, str], int]) -> float | None:
    """Return the share of stored verdicts that equal the label; None where they are too few.

    Args:
        observations: Results with their labels.
        verdicts: (case id, chunk id) to a stored verdict.
    """
    equal = [
        verdicts[key] == label for observation in observations for key, label in _labels(observation) if key in verdicts
    ]
    return sum(equal) / len(equal) if len(equal) >= FEWEST_VERDICTS else None


def expected_widths(
    observations: Sequence[Observation], verdicts: Mapping[tuple[str, str], int], sizes: Sequence[int], seed: int
) -> list[float | None]:
    """Return the widths of the 95% interval of context precision by number of judged queries, 0 to 1.

    A stored verdict is taken as it is; every other is the label, turned over with the probability of disagreement. The
    width is 2 t √(V/N + (1/n − 1/N) R), with the variances V of such scores and R of what the labels leave of them.

    Args:
        observations: One result for each in-scope query, with its labels.
        verdicts: (case id, chunk id) to a stored verdict.
        sizes: Numbers of judged queries.
        seed: Seed of the made-up verdicts.

    Returns:
        None for samples that are too small for an interval.
    """
    if len(observations) < FEWEST:
        return [None] * len(sizes)
    rng, total = np.random.default_rng(seed), len(observations)
    share = agreement(observations, verdicts)
    wrong = 1 - (USUAL_AGREEMENT if share is None else share)
    labels = [[*_labels(observation)] for observation in observations]
    proxy = np.array([average_precision([label for _, label in each]) for each in labels])
    variances = np.array([_variances(_judged(labels, verdicts, wrong, rng), proxy) for _ in range(JUDGES)]).mean(axis=0)
    return [_width(size, total, *variances.tolist()) for size in sizes]


def _labels(observation: Observation) -> list[tuple[tuple[str, str], int]]:
    grades = observation.relevance.grades
    return [((observation.case.id, chunk_id), int(chunk_id in grades)) for chunk_id in observation.ranked_ids]


def _judged(
    labels: Sequence[Sequence[tuple[tuple[str, str], int]]],
    verdicts: Mapping[tuple[str, str], int],
    wrong: float,
    rng: np.random.Generator,
) -> Floats:
    """Return the scores of one made-up judge."""
    return np.array(
        [
            average_precision([verdicts.get(key, label ^ int(rng.random() < wrong)) for key, label in each])
            for each in labels
        ]
    )


def _variances(judged: Floats, proxy: Floats) -> tuple[float, float]:
    """Return the variances of judged scores, and of what the proxy leaves of them."""
    weight = shrunk_weight(judged[:, None], proxy[:, None])
    return float(judged.var(ddof=1)), float((judged - weight * proxy).var(ddof=1))


def _width(size: int, total: int, variance: float, rest: float) -> float | None:
    if size < FEWEST:
        return None
    half = float(student(np.asarray(float(size)))) * sqrt(variance / total + (1 / size - 1 / total) * rest)
    return min(1.0, 2 * half)
