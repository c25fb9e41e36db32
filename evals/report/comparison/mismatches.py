"""What makes two runs incomparable, and what a reader of their difference must know. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from evals.report.comparison.records import Mismatch, Pairing, SettingChange
from evals.report.schema import Facts, Report
from retrievers.config.layers import flatten

SHOWN = 5
DIGITS = 12
WITHOUT_SCORES = {"name", "tracking", "criteria", "metrics", "sweep", "objective"}
"""Settings on which no score depends."""
JUDGED = ("ragas/llm_*", "judge/*")
"""Metrics that a judge gives; a difference of two judges' scores says nothing about retrieval."""
WHERE = {"collection": "all chunks", "returned": "the chunks that came back"}
OF_SERVERS = {
    "version": "",
    "shards": "terms are counted within each shard: the scores of keyword and hybrid search depend on it",
    "replicas": "",
    "hnsw": "an approximate index finds other neighbours with other settings",
    "quantization": "scores of quantised vectors are approximate",
    "datatype": "scores are computed on numbers of this precision",
}
"""Settings of a server to what a difference of them means."""
OF_SCORES = {"ragas": "its prompts and formulas are part of the ragas/ scores"}


def mismatches(baseline: Report, other: Report, pairing: Pairing) -> list[Mismatch]:
    """Everything besides settings in which two runs differ, what forbids a comparison first."""
    return [
        *_golden(baseline.facts, other.facts, pairing),
        *_relevance(baseline.facts, other.facts, pairing),
        *_collection(baseline.facts, other.facts),
        *_server(baseline.facts, other.facts),
        *_judges(baseline.facts, other.facts),
        *_plain(baseline.facts, other.facts),
        *_versions(baseline.facts.versions, other.facts.versions),
    ]


def changes(baseline: Mapping[str, Any], other: Mapping[str, Any]) -> list[SettingChange]:
    """The settings of retrieval and scoring that differ; one that is not set is None."""
    first, second = dict(flatten(baseline)), dict(flatten(other))
    names = [name for name in {**first, **second} if name.partition(".")[0] not in WITHOUT_SCORES]
    return [
        SettingChange(setting=name, baseline=first.get(name), other=second.get(name))
        for name in names
        if first.get(name) != second.get(name)
    ]


def _golden(baseline: Facts, other: Facts, pairing: Pairing) -> Iterator[Mismatch]:
    if baseline.dataset_fingerprint == other.dataset_fingerprint and pairing.complete:
        return
    found = [
        f"{len(ids)} {where} ({some(ids)})"
        for ids, where in (
            (pairing.only_baseline, "only in the baseline"),
            (pairing.only_other, "only in the other"),
            (pairing.changed, "changed"),
        )
        if ids
    ]
    yield Mismatch(
        what="golden data",
        grade="known" if pairing.complete else "forbids",
        baseline=f"{baseline.cases} queries, {baseline.dataset_fingerprint[:DIGITS]}",
        other=f"{other.cases} queries, {other.dataset_fingerprint[:DIGITS]}",
        meaning=", ".join(found) or "only labels differ (tags, types, splits), on which no score depends",
    )


def _relevance(baseline: Facts, other: Facts, pairing: Pairing) -> Iterator[Mismatch]:
    kinds = {one.relevance for one in (baseline, other)}
    if kinds == {"returned"}:
        return  # of what came back; it differs with every result
    if len(kinds) > 1:
        yield Mismatch(
            what="relevance",
            grade="known",
            baseline=f"resolved in {WHERE[baseline.relevance]}",
            other=f"resolved in {WHERE[other.relevance]}",
            meaning="only among all chunks is the one that holds most of a quote relevant where none holds half",
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


def _collection(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    first, second = baseline.collection, other.collection
    if first and second and first.fingerprint == second.fingerprint:
        return
    shown = [
        f"{one.name}, {one.points:,} points, {one.fingerprint[:DIGITS]}" if one else "not known"
        for one in (first, second)
    ]
    yield Mismatch(
        what="collection",
        grade="known",
        baseline=shown[0],
        other=shown[1],
        meaning="differences may come from what was indexed"
        if first and second
        else "whether both read the same chunks cannot be told",
    )


def _server(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    """Differences of how the servers run the collections, each by itself."""
    first, second = (facts.collection and facts.collection.server for facts in (baseline, other))
    if not first or not second:
        return
    for name, meaning in OF_SERVERS.items():
        before, after = getattr(first, name), getattr(second, name)
        if before != after:
            yield Mismatch(
                what=f"server: {name}", grade="known", baseline=_flat(before), other=_flat(after), meaning=meaning
            )


def _flat(value: Any) -> str:
    """A setting of a server in one line."""
    plain = flatten(value) if isinstance(value, Mapping) else ()
    return ", ".join(f"{key} {one}" for key, one in plain) or ("none" if value in (None, {}) else str(value))


def other_judges(baseline: Facts, other: Facts) -> bool:
    """Whether both runs have a judge, but not the same."""
    first, second = baseline.judge, other.judge
    return first is not None and second is not None and first.fingerprint != second.fingerprint


def judged(metric: str) -> bool:
    """Whether a metric is what a judge said."""
    return any(fnmatchcase(metric, pattern) for pattern in JUDGED)


def _judges(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    if other_judges(baseline, other):
        yield Mismatch(
            what="judge",
            grade="known",
            baseline=_judge_text(baseline, other),
            other=_judge_text(other, baseline),
            meaning=f"what they said is not compared: {', '.join(JUDGED)}",
        )


def _judge_text(facts: Facts, against: Facts) -> str:
    """The model, and of the parameters those that differ."""
    one, two = facts.judge, against.judge
    if one is None or two is None:
        return "none"
    known = {**one.parameters, "ragas": one.ragas}
    theirs = {**two.parameters, "ragas": two.ragas}
    differing = [f"{name} {value}" for name, value in known.items() if theirs.get(name) != value]
    return " ".join([f"{one.provider}:{one.model}", *([f"({', '.join(differing)})"] if differing else [])])


def _plain(baseline: Facts, other: Facts) -> Iterator[Mismatch]:
    first, second = baseline.model_dump(), other.model_dump()
    for name, meaning in (
        ("retriever", ""),
        ("embedding", ""),
        ("commit", ""),
        ("seed", ""),
    ):
        if first.get(name) != second.get(name):
            yield Mismatch(
                what=name,
                grade="known",
                baseline=_text(first.get(name), second.get(name)),
                other=_text(second.get(name), first.get(name)),
                meaning=meaning,
            )


def _versions(baseline: Mapping[str, str], other: Mapping[str, str]) -> Iterator[Mismatch]:
    for name in {**baseline, **other}:
        first, second = baseline.get(name), other.get(name)
        if first != second:
            yield Mismatch(
                what=f"version of {name}",
                grade="known",
                baseline=_text(first),
                other=_text(second),
                meaning=OF_SCORES.get(name, ""),
            )


def line(one: Mismatch) -> str:
    """A mismatch in one line of an error message."""
    return f"{one.what}: {one.baseline} → {one.other}" + (f" ({one.meaning})" if one.meaning else "")


def some(ids: Sequence[str]) -> str:
    """The first of some ids."""
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")


def _text(value: Any, beside: Any = None) -> str:
    """A value; of a judge its model, and those of its parameters that are not those of the one beside."""
    if not isinstance(value, Mapping):
        return "not recorded" if value is None else str(value)
    mine, others = (one.get("parameters", {}) if isinstance(one, Mapping) else {} for one in (value, beside))
    other = [f"{name} {mine.get(name)!r}" for name in {**mine, **others} if mine.get(name) != others.get(name)]
    named = f"{value.get('provider')}:{value.get('model')}"
    return ", ".join([named, *(other if isinstance(beside, Mapping) else ())])
