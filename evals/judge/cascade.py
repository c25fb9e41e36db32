"""A cascade of judges: the strongest judges a sample, each cheaper one a larger sample that holds it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from evals.collect.observations import Observation
from evals.judge.judge import Judge
from evals.judge.sampling import among, judging_order, sample_size
from evals.judge.verdicts import Judging


def tier_sizes(judge: Judge, queries: int, *, in_rounds: bool = False) -> list[int]:
    """Return the number of queries that each tier judges of so many, the cheapest first; none more than the one before.

    Where the strongest judges all, the others have nothing to correct, and judge none; but in rounds, of which nobody
    knows before how many there are, they judge all.
    """
    sizes = [sample_size(tier.config.sample, queries) for tier in judge.tiers]
    nested = [min(sizes[: number + 1]) for number in range(len(sizes))]
    return nested if in_rounds or nested[-1] < queries else [*(0 for _ in nested[:-1]), queries]


def judge_cascade(judge: Judge, metrics: Collection[str], observations: Sequence[Observation], seed: int) -> Judging:
    """Judge by every tier the queries of its sample, all selections of each.

    All samples are beginnings of one order, so that each holds those of the stronger tiers. Every tier is asked about
    one query before any is asked about the rest, so that one which refuses to answer ends the run before much is
    bought. Then the strongest goes first: if the budget ends, the cheaper ones' scores are predicted from the labels.

    Args:
        judge: The strongest tier.
        metrics: Names of metrics; those that need no judge are passed over.
        observations: The selections; several of one query are as many selections.
        seed: Seed of the order of the queries.

    Returns:
        The verdicts of the strongest tier, with those of the others below it.

    Raises:
        JudgeError: The first call of a tier was refused for a reason that all others would share.
    """
    order = judging_order((observation.case for observation in observations), seed)
    sizes = tier_sizes(judge, len(order))
    tiers = [(tier, size) for tier, size in zip(judge.tiers, sizes, strict=True) if size][::-1]
    with_results = {observation.case.id for observation in observations if observation.selection}
    first = [case_id for case_id in order[: sizes[-1]] if case_id in with_results][:1]
    begun = [tier.judge(metrics, among(first, observations), seed) for tier, _ in tiers]
    verdicts = [
        beginning.with_more(tier.judge(metrics, among(set(order[:size]).difference(first), observations), seed))
        for (tier, size), beginning in zip(tiers, begun, strict=True)
    ]
    below: Judging | None = None
    for (_, size), judging in reversed(list(zip(tiers, verdicts, strict=True))):
        drawn = None if size == len(order) else frozenset(order[:size])
        below = replace(judging, drawn=drawn, below=below)
    assert below is not None
    return below


def judge_below(
    judge: Judge, metrics: Collection[str], observations: Sequence[Observation], seed: int
) -> tuple[Judging, Callable[[Sequence[Observation]], Judging]]:
    """Judge everything by the cheap judge, and return how the strong one is asked, in rounds.

    As in `judge_cascade` both are asked about one query before any is asked about the rest.

    Args:
        judge: The strong one, with the cheap one below it.
        metrics: Names of metrics; those that need no judge are passed over.
        observations: The selections of all queries.
        seed: Seed of the order of the queries.

    Returns:
        The verdicts of the cheap one, and a function from selections to the strong one's verdicts on them.

    Raises:
        JudgeError: The first call of a tier was refused for a reason that all others would share.
    """
    assert judge.below is not None
    with_results = {observation.case.id for observation in observations if observation.selection}
    order = judging_order((observation.case for observation in observations), seed)
    first = [case_id for case_id in order if case_id in with_results][:1]
    begun = judge.judge(metrics, among(first, observations), seed)
    rest = [observation for observation in observations if observation.case.id not in first]
    beginning = judge.below.judge(metrics, among(first, observations), seed)
    below = beginning.with_more(judge.below.judge(metrics, rest, seed))

    def ask(results: Sequence[Observation]) -> Judging:
        return begun.with_more(judge.judge(metrics, [o for o in results if o.case.id not in first], seed))

    return below, ask
