"""Facts and settings in which two runs differ: some forbid a comparison, a reader must know of the others. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from evals.comparison.records import Change, Pairing
from evals.metrics import values_of
from evals.report.model import Facts, Report
from retrievers.config.layers import flatten

# Most ids, and digits of a fingerprint, that a line shows.
SHOWN, DIGITS = 5, 12
# Settings, and tables of settings, that no score depends on.
NOT_SCORED = "name tracking baseline criteria metrics judge.cache_path judge.prices retriever.trust_embedding".split()
# Settings that choose the cell of a grid that a report is of.
OF_A_GRID = {"sweep", "objective"}
REDECLARED = "declared differently in the two runs, so not compared"
# What a difference in a fact means.
MEANINGS = {
    "collection": "differences may come from what was indexed, and the same evidence may lie in other chunks",
    "judge": "what they said is not compared: ragas/llm_*, judge/*",
    "version of ragas": "its prompts and formulas are part of the ragas/ scores",
}


def mismatches(baseline: Report, other: Report, pairing: Pairing) -> list[Change]:
    """Return the facts in which two runs differ. The golden data, which may forbid a comparison, come first."""
    first, second = _facts(baseline.facts), _facts(other.facts)
    if "judge" not in first.keys() & second.keys():  # if one run has no judge, no verdicts are compared
        first, second = ({**facts, "judge": None} for facts in (first, second))
    recorded = [
        Change(name, first.get(name) or "not recorded", second.get(name) or "not recorded", MEANINGS.get(name, ""))
        for name in {**first, **second}
        if first.get(name) != second.get(name)
    ]
    return [*_golden(baseline, other, pairing), *recorded, *redeclared(baseline, other)]


def changes(baseline: Mapping[str, Any], other: Mapping[str, Any]) -> list[Change]:
    """Return the settings of retrieval, choice and scoring that differ. A setting that is not set is None.

    Settings of the judge are left out if neither run has one, and settings of the grid unless both runs are grids.
    """
    first, second = ({name: value for name, value in flatten(run) if value != {}} for run in (baseline, other))
    is_judged = first.get("judge.model") or second.get("judge.model")
    are_grids = all(any(run[name] for name in run if name.startswith("sweep.")) for run in (first, second))
    left_out = {*NOT_SCORED} | (set() if is_judged else {"judge"}) | (set() if are_grids else OF_A_GRID)
    return [
        Change(name, first.get(name), second.get(name))
        for name in {**first, **second}
        if first.get(name) != second.get(name) and left_out.isdisjoint(accumulate(name.split("."), "{}.{}".format))
    ]


def other_judges(baseline: Facts, other: Facts) -> bool:
    """Return True if both runs have a judge, and the judges differ."""
    first, second = baseline.judge, other.judge
    return first is not None and second is not None and first.fingerprint != second.fingerprint


def redeclared(baseline: Report, other: Report) -> list[Change]:
    """Return the metrics of the user's own whose unit, range or direction differs between the runs."""
    first, second = (
        {own.name: f"{values_of(own.declaration)}, {own.direction}" for own in run.own_metrics}
        for run in (baseline, other)
    )
    return [Change(name, a, b, REDECLARED) for name, a in first.items() if (b := second.get(name, a)) != a]


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
        f"{len(run.queries)} queries, {run.facts.dataset_fingerprint[:DIGITS]}" for run in (baseline, other)
    )
    meaning = (
        ", ".join(faults) or "only tags, types, splits or people's verdicts differ, on which no query's score depends"
    )
    yield Change("golden data", before, after, meaning)


def _facts(facts: Facts) -> dict[str, str | None]:
    """Return the recorded facts of a run by name, each as one line."""
    collection, judge = facts.collection, facts.judge
    known: dict[str, str | None] = {"retriever": facts.retriever, "embedding": facts.embedding, "commit": facts.commit}
    if collection:
        known["collection"] = f"{collection.name}, {collection.points:,} points, {collection.fingerprint[:DIGITS]}"
    if judge:
        known["judge"] = f"{judge.provider}:{judge.model}, {judge.fingerprint[:DIGITS]}"
    return known | {f"version of {name}": version for name, version in facts.versions.items()}
