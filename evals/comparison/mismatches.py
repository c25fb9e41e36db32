"""Mismatches of two runs: those that forbid a comparison, and those that a reader must know of. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evals.comparison.records import Mismatch, Pairing, SettingChange
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
OF_BUYING = frozenset(
    "api_key_env cache cache_max_days cache_max_mb cache_path max_concurrency prices refresh requests_per_minute "
    "tokens_per_minute".split()
)
# Metrics of the judge, as named in messages; a difference between two judges says nothing about retrieval.
JUDGED = "ragas/llm_*, judge/*"
WHERE = {"collection": "all chunks", "returned": "the chunks that came back"}
# Facts that are compared as they are, each with the meaning of a difference; all others of a run are below.
OF_A_SERVER = {
    "version": "",
    "shards": "terms are counted within each shard: the scores of keyword and hybrid search depend on it",
    "replicas": "",
    "hnsw": "an approximate index finds other neighbours with other settings",
    "quantization": "scores of quantised vectors are approximate",
    "datatype": "scores are computed on numbers of this precision",
}
OF_A_RUN = {
    "retriever": "",
    "embedding": "",
    "commit": "",
    "seed": "",
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
    yield Mismatch(
        what="golden data",
        grade="known" if pairing.complete else "forbids",
        baseline=f"{baseline.cases} queries, {baseline.dataset_fingerprint[:DIGITS]}",
        other=f"{other.cases} queries, {other.dataset_fingerprint[:DIGITS]}",
        meaning=", ".join(faults) or "only labels differ (tags, types, splits), on which no score depends",
    )


def _relevance(baseline: Facts, other: Facts, pairing: Pairing) -> Iterator[Mismatch]:
    kinds = {report.relevance for report in (baseline, other)}
    if kinds == {"returned"}:
        # The fingerprint covers the returned chunks, so it differs with every result.
        return
    if len(kinds) > 1:
        yield from _known(
            "relevance",
            f"resolved in {WHERE[baseline.relevance]}",
            f"resolved in {WHERE[other.relevance]}",
            "only among all chunks is the one that holds most of a quote relevant where none holds half",
        )
        return
    differing = [a.id for a, b in pairing.rows if a.relevant != b.relevant]
    if differing:
        yield Mismatch(
            what="relevant chunks",
            grade="known",
            baseline=f"{sum(len(a.relevant) for a, _ in pairing.rows)} chunks",
            other=f"{sum(len(b.relevant) for _, b in pairing.rows)} chunks",
            meaning=f"of {len(differing)} queries ({some(differing)}): the same evidence lies in other chunks",
        )


def _judged(baseline: Report, other: Report) -> Iterator[Mismatch]:
    """Yield that the golden data judge far more of what one run returns."""
    name = deepest("ranking/judged_at_K", baseline.metrics, other.metrics)
    shares = [run.metrics[name].value for run in (baseline, other) if name in run.metrics]
    measured = [share for share in shares if share is not None]
    if len(measured) == 2 and abs(measured[0] - measured[1]) > FAR_APART:
        yield Mismatch(
            what="judged chunks",
            grade="known",
            baseline=f"{measured[0]:.0%} ({name})",
            other=f"{measured[1]:.0%}",
            meaning="unjudged chunks count as not relevant, which is unfair to the run that returns more of them; "
            "ranking/condensed_ndcg_at_K and ranking/bpref leave them out",
        )


def _choices(baseline: GridSection | None, other: GridSection | None) -> Iterator[Mismatch]:
    """Yield that the cells of two grids were chosen by other objectives, or among other cells."""
    if baseline is None or other is None:
        return
    yield from _known(
        "objective", _objective(baseline), _objective(other), "each run is the cell that its own objective chose"
    )
    first, second = ({name: ", ".join(map(str, one)) for name, one in grid.axes.items()} for grid in (baseline, other))
    swept = [_apart(*grids, "; ") or "not swept" for grids in ((first, second), (second, first))]
    yield from _known("sweep", swept[0], swept[1], "each run was chosen among other cells")


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
    yield Mismatch(what="collection", grade="known", baseline=_named(first), other=_named(second), meaning=meaning)


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
        texts = _judge_text(first, second), _judge_text(second, first)
        meaning = f"what they said is not compared: {JUDGED}"
        yield Mismatch(what="judge", grade="known", baseline=texts[0], other=texts[1], meaning=meaning)


def _judge_text(judge: JudgeFacts, against: JudgeFacts) -> str:
    """Return the model, and of the parameters those that differ."""
    parameters, others = ({**one.parameters, "ragas": one.ragas} for one in (judge, against))
    differing = _apart(parameters, others)
    return f"{judge.provider}:{judge.model}" + (f" ({differing})" if differing else "")


def _plain(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    """Yield the facts that are compared as they are: those of the collections' servers, then those of the runs."""
    servers = [facts.collection and facts.collection.server for facts in (baseline, other)]
    if all(servers):
        for name, meaning in OF_A_SERVER.items():
            before, after = (_flat(server and server.get(name)) for server in servers)
            yield from _known(f"server: {name}", before, after, meaning)
    first, second = (
        {name: getattr(facts, name, None) for name in OF_A_RUN if " " not in name}
        | {f"version of {name}": text for name, text in facts.versions.items()}
        for facts in (baseline, other)
    )
    for name in {**first, **second}:
        yield from _known(name, _text(first.get(name)), _text(second.get(name)), OF_A_RUN.get(name, ""))


def _flat(value: Any) -> str:
    """Return a setting of a server in one line."""
    plain = flatten(value) if isinstance(value, Mapping) else ()
    return ", ".join(f"{key} {item}" for key, item in plain) or ("none" if value in (None, {}) else str(value))


def _known(what: str, baseline: str, other: str, meaning: str = "") -> Iterator[Mismatch]:
    """Yield what a reader must know, where the runs differ in it."""
    if baseline != other:
        yield Mismatch(what=what, grade="known", baseline=baseline, other=other, meaning=meaning)


def line(mismatch: Mismatch) -> str:
    """Return a mismatch in one line of an error message."""
    return f"{mismatch.what}: {mismatch.baseline} → {mismatch.other}" + (
        f" ({mismatch.meaning})" if mismatch.meaning else ""
    )


def some(ids: Sequence[str]) -> str:
    """Return the first of some ids."""
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")


def _text(value: object) -> str:
    return "not recorded" if value is None else str(value)
