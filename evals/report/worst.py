"""The worst queries of a run, for a terminal: what came back instead of what was expected, and what the judge says."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from evals.collect.observations import Failure, Observation, QueryVerdict
from evals.judge.verdicts import ChunkVerdict
from evals.metrics.run_result import RunResult
from retrievers.terminal.present import score_text

WORST = 5
ORDER = {"FAILURE": 0, "PARTIAL_SUCCESS": 1, "SUCCESS": 2}


def worst(result: RunResult) -> list[tuple[Observation, QueryVerdict]]:
    """The five worst queries, of those that are not answered as they should be."""
    return [pair for pair in in_order(result) if pair[1].outcome != "SUCCESS"][:WORST]


def in_order(result: RunResult) -> list[tuple[Observation, QueryVerdict]]:
    """All queries, the worst first: by outcome, then by how little of their result was right, then by id."""
    verdicts = {verdict.query_id: verdict for verdict in result.validation.verdicts}
    pairs = [(o, verdicts[o.case.id]) for o in result.observed.observations]
    return sorted(
        pairs,
        key=lambda pair: (ORDER[pair[1].outcome], pair[1].content_relevance, -_surprise(pair[0]), pair[1].query_id),
    )


def _surprise(observation: Observation) -> float:
    """How confidently wrong: the best score that was returned."""
    return max((found.score for found in observation.selection if found.score is not None), default=0.0)


def print_worst(console: Console, result: RunResult) -> None:
    """The worst queries with what was retrieved instead, and why the judge found it useless; nothing if all are well.

    Args:
        console: Where to.
        result: The run.
    """
    pairs = worst(result)
    if not pairs:
        return
    which = "worst query" if len(pairs) == 1 else f"{len(pairs)} worst queries"
    console.print(f"\n[bold]The {which}[/bold], and what was retrieved instead")
    for observation, verdict in pairs:
        console.print(f"\n  [bold]{escape(observation.case.id)}[/bold] {escape(observation.case.query)}")
        for reason in verdict.reasons[:2]:
            console.print(f"    [red]{verdict.outcome}[/red] {escape(reason)}")
        for found in observation.selection[:3]:
            mark = "✓" if found.chunk.chunk_id in observation.relevance.grades else " "
            heading = escape(found.chunk.heading or "")
            console.print(
                f"    {found.rank}. {score_text(found.score)} {mark} {escape(found.source)}  [dim]{heading}[/dim]",
                overflow="ellipsis",
                no_wrap=True,
            )
            if said := _judged(result, observation.case.id, found.chunk.chunk_id):
                console.print(f"       {escape(said)}", style="dim")
        for place in expected(observation)[:2]:
            console.print(f"    expected  {escape(place)}", overflow="ellipsis", no_wrap=True, style="dim")


def expected(observation: Observation) -> Sequence[str]:
    """The places that should have been found, the most relevant first."""
    ordered = sorted(observation.case.evidence, key=lambda e: -e.grade)
    return list(dict.fromkeys(evidence.place for evidence in ordered))


def _judged(result: RunResult, case_id: str, chunk_id: str) -> str:
    """Why the judge found a chunk useless, or has no verdict on it; empty for a useful one."""
    found = result.judging.verdicts.get((case_id, chunk_id)) if result.judging else None
    if isinstance(found, ChunkVerdict):
        return "" if found.verdict else f"judged useless: {found.reason}"
    return f"not judged: {found.type}: {found.message}" if isinstance(found, Failure) else ""
