"""Two judges: a cheap one judges everything that the strong one could be asked, the strong one a beginning of it."""

from collections.abc import Callable, Collection, Sequence

from evals.collect.observations import Observation
from evals.judge.judge import Judge
from evals.judge.verdicts import Judging
from evals.sampling.order import among, judging_order, sample_size


def tier_sizes(judge: Judge, queries: int, *, in_rounds: bool = False) -> list[int]:
    """Return the number of queries that each judge judges of so many, the cheap one first.

    Where the strong one judges all there is nothing to correct, and the other judges none; but in rounds, of which
    nobody knows before how many there are, it judges all.
    """
    size = sample_size(judge.config.sample, queries)
    return [queries if in_rounds or size < queries else 0 for _ in judge.tiers[:-1]] + [size]


def asking(
    judge: Judge, metrics: Collection[str], observations: Sequence[Observation], seed: int
) -> tuple[Callable[[Sequence[Observation]], Judging], Callable[[], Judging | None]]:
    """Return how the judge that counts is asked about some results, and how the cheap one about everything.

    Both are asked about one query before any is asked about the rest, so that one which refuses to answer ends the run
    before much is bought.

    Args:
        judge: The one that counts, with the cheap one below it, if there is one.
        metrics: Names of metrics; those that need no judge are passed over.
        observations: The results of all queries.
        seed: Seed of the order of the queries.

    Raises:
        JudgeError: The first call of a judge was refused for a reason that all others would share.
    """
    cheap = judge.below
    if cheap is None:
        return lambda results: judge.judge(metrics, results, seed), lambda: None
    with_results = {observation.case.id for observation in observations if observation.selection}
    order = judging_order((observation.case for observation in observations), seed)
    first = [case_id for case_id in order if case_id in with_results][:1]
    begun, below = (each.judge(metrics, among(first, observations), seed) for each in (judge, cheap))

    def rest(results: Sequence[Observation]) -> list[Observation]:
        return [observation for observation in results if observation.case.id not in first]

    return (
        lambda results: begun.with_more(judge.judge(metrics, rest(results), seed)),
        lambda: below.with_more(cheap.judge(metrics, rest(observations), seed)),
    )
