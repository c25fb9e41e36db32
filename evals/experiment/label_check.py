"""Golden queries without labels: what scores their results, or why nothing does."""

from collections.abc import Sequence

from evals.config.experiment import ExperimentConfig
from evals.errors import DatasetError, ExperimentError
from evals.golden.loading import GoldenSet
from evals.judge.tasks import JUDGED, PRECISION, RELEVANCE
from evals.metrics import choose, declared
from evals.metrics.sampled import can_be_judged

# Cases that are named.
SHOWN = 3
EXAMPLE = "cohere:command-a-03-2025"
TO_LABEL = (
    "label the queries: let people judge what a retriever finds (python -m evals.golden label FILE --config "
    "EXPERIMENT), add the passages that answer them, or have labelled queries written from your pages (python -m "
    "evals.golden synthesize)"
)


def check_scored(config: ExperimentConfig, golden: GoldenSet) -> None:
    """Make sure that labels or a judge can score the results of every query in scope.

    Args:
        config: The experiment, its metrics checked.
        golden: Its golden queries.

    Raises:
        DatasetError: A query has no labels, and there is no judge, or no metric that a judge can grade of it; every
            such query is listed.
        ExperimentError: The cells of a grid are to be compared by labels, and no query has any.
    """
    unlabelled = [case for case in golden.cases if case.is_unlabelled]
    if not unlabelled:
        return
    swept = config.objective.metrics if config.sweep.axes else ()
    chosen = choose(
        [*config.metrics, *config.criteria, *swept],
        config.latency.concurrency,
        judged=config.judge.model is not None,
    )
    graded = [name for name in chosen if name in JUDGED]
    unscored = [case for case in unlabelled if not any(can_be_judged(name, case) for name in graded)]
    if unscored:
        places = [golden.places.get(case.id, case.id) for case in unscored]
        more = f" and {len(places) - SHOWN:,} more" if len(places) > SHOWN else ""
        raise DatasetError(
            f"{len(unscored):,} of {sum(case.in_scope for case in golden.cases):,} in-scope cases have no labels "
            f"(evidence or relevant_ids of a grade above 0): {', '.join(places[:SHOWN])}{more}; "
            f"{_remedy(config, graded)}, or {TO_LABEL}"
        )
    by_labels = [name for name in swept if "labels" in declared(name).needs]
    if by_labels and not any(case.is_labelled for case in golden.cases):
        raise ExperimentError(
            f"objective: {by_labels[0]} compares cells by labels, and no query has any; expected a metric that a judge "
            f"grades, for example --objective.metrics {PRECISION}"
        )


def _remedy(config: ExperimentConfig, graded: Sequence[str]) -> str:
    """Return what would let a judge score queries without labels."""
    if config.judge.model is None:
        return f"only a judge can score them, and there is none: name one (--judge.model {EXAMPLE})"
    if not graded:
        return f"only the judge can score them, and no metric of the run is one that it grades: add {PRECISION}"
    return (
        f"nor have they a reference_answer, which {', '.join(graded)} cannot do without: write one, or add {RELEVANCE} "
        "to the metrics"
    )
