"""Changes between two runs: those that forbid a comparison, and those that a reader must know of. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evals.comparison.records import Change, Pairing
from evals.report.model import Facts, Report
from retrievers.config.layers import flatten

SHOWN = 5
DIGITS = 12
# Settings, or tables of them, on which no score depends.
WITHOUT_SCORES = {"name", "tracking", "baseline", "criteria", "metrics", "sweep", "objective"}
# What only runs can differ in that both have it; the name of a fact begins with its group.
SHARED = {"objective", "sweep", "judge"}
OF_A_RUN = ("retriever", "embedding", "commit")
# What a difference in a fact, or in one of its group, means.
MEANINGS = {
    "objective": "each run is the cell that its own objective chose",
    "sweep": "each run was chosen among other cells",
    "collection": "differences may come from what was indexed, and the same evidence may lie in other chunks",
    "judge": "what they said is not compared: ragas/llm_*, judge/*",
    "version of ragas": "its prompts and formulas are part of the ragas/ scores",
}


def mismatches(baseline: Report, other: Report, pairing: Pairing) -> list[Change]:
    """Return everything besides settings in which two runs differ, what forbids a comparison first."""
    return [
        *_golden(baseline, other, pairing),
        *_recorded(baseline, other),
    ]


def changes(baseline: Mapping[str, Any], other: Mapping[str, Any]) -> list[Change]:
    """Return the settings of retrieval and scoring that differ; one that is not set is None.

    Those of a judge that neither run has are left out.
    """
    first, second = dict(flatten(baseline)), dict(flatten(other))
    is_judged = first.get("judge.model") or second.get("judge.model")
    without = WITHOUT_SCORES if is_judged else WITHOUT_SCORES | {"judge"}
    return [
        Change(name, first.get(name), second.get(name))
        for name in {**first, **second}
        if first.get(name) != second.get(name) and name.partition(".")[0] not in without
    ]


def other_judges(baseline: Facts, other: Facts) -> bool:
    """Return True if both runs have a judge, but not the same."""
    first, second = baseline.judge, other.judge
    return first is not None and second is not None and first.fingerprint != second.fingerprint


def line(mismatch: Change) -> str:
    """Return a mismatch in one line of an error message."""
    meaning = f" ({mismatch.meaning})" if mismatch.meaning else ""
    return f"{mismatch.what}: {mismatch.baseline} → {mismatch.other}{meaning}"


def some(ids: Sequence[str]) -> str:
    """Return the first ids as text, with `…` if there are more."""
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")


def _golden(baseline: Report, other: Report, pairing: Pairing) -> Iterator[Change]:
    if baseline.facts.dataset_fingerprint == other.facts.dataset_fingerprint and not pairing.left:
        return
    sets = {
        "only in the baseline": pairing.only_baseline,
        "only in the other": pairing.only_other,
        "changed": pairing.changed,
    }
    faults = [f"{len(ids)} {where} ({some(ids)})" for where, ids in sets.items() if ids]
    before, after = (
        f"{len(one.queries)} queries, {one.facts.dataset_fingerprint[:DIGITS]}" for one in (baseline, other)
    )
    meaning = ", ".join(faults) or "only labels differ (tags, types, splits), on which no score depends"
    yield Change("golden data", before, after, meaning)


def _recorded(baseline: Report, other: Report) -> Iterator[Change]:
    """Yield the facts, as text, in which two runs differ."""
    first, second = dict(_facts(baseline)), dict(_facts(other))
    for name in {**first, **second}:
        group, before, after = name.partition(":")[0], first.get(name), second.get(name)
        if before == after or (group in SHARED and None in (before, after)):
            continue
        meaning = MEANINGS.get(name, MEANINGS.get(group, ""))
        yield Change(name, before or "not recorded", after or "not recorded", meaning)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield each fact by its name, in one line."""
    facts, grid, collection, judge = report.facts, report.grid, report.facts.collection, report.facts.judge
    if grid:
        where = f" where {grid.ranking.where}" if grid.ranking.where else ""
        margin = f", margin {grid.choice.margin:g}" if grid.choice else ""
        yield "objective", f"{grid.ranking.objective}{where}{margin}"
        for name, values in grid.axes.items():
            yield f"sweep: {name}", ", ".join(map(str, values))
    if collection:
        yield "collection", f"{collection.name}, {collection.points:,} points, {collection.fingerprint[:DIGITS]}"
    if judge:
        yield "judge", f"{judge.provider}:{judge.model}"
        yield from ((f"judge: {name}", str(value)) for name, value in flatten(judge.parameters))
    yield from ((name, str(fact)) for name in OF_A_RUN if (fact := getattr(facts, name)) is not None)
    yield from ((f"version of {name}", value) for name, value in facts.versions.items())
