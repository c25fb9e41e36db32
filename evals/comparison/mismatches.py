"""Mismatches of two runs: those that forbid a comparison, and those that a reader must know of. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evals.comparison.records import Grade, Mismatch, Pairing, SettingChange
from evals.metrics import declared
from evals.report.headline import deepest
from evals.report.model import CollectionFacts, Facts, GridSection, JudgeFacts, Report
from retrievers.config.layers import flatten

SHOWN = 5
# Difference of the shares of judged chunks that a reader must know of.
FAR_APART = 0.1
DIGITS = 12
# Settings on which no score depends, some of them whole sections; then those of how verdicts are bought and kept.
WITHOUT_SCORES = {"name", "tracking", "criteria", "metrics", "sweep", "objective"}
OF_BUYING = frozenset("api_key_env cache_path max_concurrency prices requests_per_minute tokens_per_minute".split())
# Metrics of the judge, as named in messages; a difference between two judges says nothing about retrieval.
JUDGED = "ragas/llm_*, judge/*"
WHERE = {"collection": "all chunks", "returned": "the chunks that came back"}
# Facts that are compared as they are, and what a difference in one means; all others have a function below.
OF_A_SERVER = ("version", "shards", "replicas", "hnsw", "quantization", "datatype")
OF_A_RUN = ("retriever", "embedding", "commit", "seed")
MEANINGS = {
    "server: shards": "terms are counted within each shard: the scores of keyword and hybrid search depend on it",
    "server: hnsw": "an approximate index finds other neighbours with other settings",
    "server: quantization": "scores of quantised vectors are approximate",
    "server: datatype": "scores are computed on numbers of this precision",
    "version of ragas": "its prompts and formulas are part of the ragas/ scores",
}


def mismatches(baseline: Report, other: Report, pairing: Pairing) -> list[Mismatch]:
    """Return everything besides settings in which two runs differ, what forbids a comparison first."""
    return [
        *_golden(baseline.facts, other.facts, pairing),
        *_relevance(baseline.facts, other.facts, pairing),
        *_judged(baseline, other),
        *_choices(baseline.grid, other.grid),
        *_collection(baseline.facts, other.facts),
        *_judges(baseline.facts, other.facts),
        *_plain(baseline.facts, other.facts),
    ]


def changes(baseline: Mapping[str, Any], other: Mapping[str, Any]) -> list[SettingChange]:
    """Return the settings of retrieval and scoring that differ; one that is not set is None.

    Those of a judge that neither run has are left out.
    """
    first, second = dict(flatten(baseline)), dict(flatten(other))
    judged = first.get("judge.model") or second.get("judge.model")
    without = WITHOUT_SCORES if judged else WITHOUT_SCORES | {"judge"}
    return [
        SettingChange(setting=name, baseline=first.get(name), other=second.get(name))
        for name in {**first, **second}
        if name.partition(".")[0] not in without
        and not (name.startswith("judge.") and name.split(".")[1] in OF_BUYING)
        and first.get(name) != second.get(name)
    ]


def _golden(baseline: Facts, other: Facts, pairing: Pairing) -> Iterator[Mismatch]:
    if baseline.dataset_fingerprint == other.dataset_fingerprint and pairing.complete:
        return
    sets = {
        "only in the baseline": pairing.only_baseline,
        "only in the other": pairing.only_other,
        "changed": pairing.changed,
    }
    faults = [f"{len(ids)} {where} ({some(ids)})" for where, ids in sets.items() if ids]
    before, after = (f"{one.cases} queries, {one.dataset_fingerprint[:DIGITS]}" for one in (baseline, other))
    meaning = ", ".join(faults) or "only labels differ (tags, types, splits), on which no score depends"
    yield _known("golden data", before, after, meaning, "known" if pairing.complete else "forbids")


def _relevance(baseline: Facts, other: Facts, pairing: Pairing) -> Iterator[Mismatch]:
    kinds = [facts.relevance for facts in (baseline, other)]
    if kinds[0] != kinds[1]:
        before, after = (f"resolved in {WHERE[kind]}" for kind in kinds)
        meaning = "only among all chunks is the one that holds most of a quote relevant where none holds half"
        yield _known("relevance", before, after, meaning)
    # What is relevant among the chunks that came back differs with every result.
    elif "returned" not in kinds:
        differing = [a.id for a, b in pairing.rows if a.relevant != b.relevant]
        before, after = (f"{sum(len(rows[run].relevant) for rows in pairing.rows)} chunks" for run in (0, 1))
        if differing:
            meaning = f"of {len(differing)} queries ({some(differing)}): the same evidence lies in other chunks"
            yield _known("relevant chunks", before, after, meaning)


def _judged(baseline: Report, other: Report) -> Iterator[Mismatch]:
    """Yield that the golden data judge far more of what one run returns."""
    name = deepest("ranking/judged_at_K", baseline.metrics, other.metrics)
    shares = [run.metrics[name].value for run in (baseline, other) if name in run.metrics]
    measured = [share for share in shares if share is not None]
    if len(measured) == 2 and abs(measured[0] - measured[1]) > FAR_APART:
        meaning = (
            "unjudged chunks count as not relevant, which is unfair to the run that returns more of them; "
            "ranking/condensed_ndcg_at_K and ranking/bpref leave them out"
        )
        yield _known("judged chunks", f"{measured[0]:.0%} ({name})", f"{measured[1]:.0%}", meaning)


def _choices(baseline: GridSection | None, other: GridSection | None) -> Iterator[Mismatch]:
    """Yield that the cells of two grids were chosen by other objectives, or among other cells."""
    if baseline is None or other is None:
        return
    chosen = [_objective(grid) for grid in (baseline, other)]
    if chosen[0] != chosen[1]:
        yield _known("objective", chosen[0], chosen[1], "each run is the cell that its own objective chose")
    first, second = ({name: ", ".join(map(str, one)) for name, one in grid.axes.items()} for grid in (baseline, other))
    if first != second:
        swept = [_apart(*grids, "; ") or "not swept" for grids in ((first, second), (second, first))]
        yield _known("sweep", swept[0], swept[1], "each run was chosen among other cells")


def _objective(grid: GridSection) -> str:
    where = f" where {grid.ranking.where}" if grid.ranking.where else ""
    return f"{grid.ranking.objective}{where}" + (f", margin {grid.choice.margin:g}" if grid.choice else "")


def _apart(mine: Mapping[str, Any], others: Mapping[str, Any], between: str = ", ") -> str:
    """Return the entries that the other run has not, or with other values."""
    return between.join(f"{name} {value}" for name, value in mine.items() if others.get(name) != value)


def _collection(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    first, second = baseline.collection, other.collection
    if first and second and first.fingerprint == second.fingerprint:
        return
    indexed = "differences may come from what was indexed"
    meaning = indexed if first and second else "it is unknown if both read the same chunks"
    yield _known("collection", _named(first), _named(second), meaning)


def _named(collection: CollectionFacts | None) -> str:
    if collection is None:
        return "not known"
    return f"{collection.name}, {collection.points:,} points, {collection.fingerprint[:DIGITS]}"


def other_judges(baseline: Facts, other: Facts) -> bool:
    """Return True if both runs have a judge, but not the same."""
    return any(_judges(baseline, other))


def judged(metric: str) -> bool:
    """Return whether a metric is what a judge said."""
    return "judge" in declared(metric).needs


def _judges(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    first, second = baseline.judge, other.judge
    if first and second and first.fingerprint != second.fingerprint:
        meaning = f"what they said is not compared: {JUDGED}"
        yield _known("judge", _judge_text(first, second), _judge_text(second, first), meaning)


def _judge_text(judge: JudgeFacts, against: JudgeFacts) -> str:
    """Return the model, and of the parameters those that differ."""
    parameters, others = ({**one.parameters, "ragas": one.ragas} for one in (judge, against))
    differing = _apart(parameters, others)
    return f"{judge.provider}:{judge.model}" + (f" ({differing})" if differing else "")


def _plain(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    """Yield the facts that are compared as they are."""
    first, second = _recorded(baseline), _recorded(other)
    for name in {**first, **second}:
        before, after = (facts.get(name, "not recorded") for facts in (first, second))
        # Where a collection is of no server, nothing is known of one.
        if before != after and (not name.startswith("server") or (name in first and name in second)):
            yield _known(name, before, after, MEANINGS.get(name, ""))


def _recorded(facts: Facts) -> dict[str, str]:
    """Return the settings of the collection's server, then the facts of the run, each in one line."""
    server = facts.collection and facts.collection.server
    of_run = {name: getattr(facts, name) for name in OF_A_RUN} | {
        f"version of {k}": v for k, v in facts.versions.items()
    }
    return {f"server: {name}": _flat(server.get(name)) for name in OF_A_SERVER if server} | {
        name: "not recorded" if value is None else str(value) for name, value in of_run.items()
    }


def _flat(value: Any) -> str:
    """Return a setting of a server in one line."""
    plain = flatten(value) if isinstance(value, Mapping) else ()
    return ", ".join(f"{key} {item}" for key, item in plain) or ("none" if value in (None, {}) else str(value))


def _known(what: str, baseline: str, other: str, meaning: str = "", grade: Grade = "known") -> Mismatch:
    return Mismatch(what=what, grade=grade, baseline=baseline, other=other, meaning=meaning)


def line(mismatch: Mismatch) -> str:
    """Return a mismatch in one line of an error message."""
    return f"{mismatch.what}: {mismatch.baseline} → {mismatch.other}" + (
        f" ({mismatch.meaning})" if mismatch.meaning else ""
    )


def some(ids: Sequence[str]) -> str:
    """Return the first of some ids."""
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")
