"""Inspect a collection: what it holds, which settings a retriever needs for it, and which faults it has.

Each of 13 checks returns a fault with its remedy in a line, or nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from langchain_core.embeddings import Embeddings

from retrievers.config import RetrieverConfig
from retrievers.config.filters import conditions, is_qdrants, to_filter
from retrievers.embedding.bm25 import B, Bm25Encoder, K
from retrievers.errors import ConfigError, RetrievalError
from retrievers.records import ALIASES, METADATA_FIELDS, Chunk
from retrievers.retriever.opened import open_retriever
from retrievers.store.checks import distance_fault, model_fault
from retrievers.store.chunks import possible_keys, records, to_chunk
from retrievers.store.collection import SAMPLE, CollectionInfo, Proposal, by_name, describe, propose, values_by_key
from retrievers.store.opening import open_client, placed, store_errors

# A text of fewer words is tiny. A larger share of tiny texts is a fault.
TINY_WORDS, MANY_TINY = 5, 0.05
# KB of vectors up to which a server by default builds no index.
UNINDEXED_KB = 10_000
# Relative deviation of the average length. Beyond it, scores of short and long chunks shift by more than a tenth.
TOLERATED = 0.3
# Beginning of the text of a check that could not be made.
UNCHECKED = "not checked"
Maker = Callable[[], Embeddings]
Points: TypeAlias = "Sequence[models.Record | models.ScoredPoint]"
if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Facts of a collection, which the checks read.

    Attributes:
        config: The settings, completed by what they leave out: the proposed payload keys, the only dense vector, and
            the only sparse vector if it is of BM25.
        model: Makes the embedding model, or returns it.
        info: Properties of the collection.
        stored: The description of the collection by the client.
        points: Some of its points, with payloads and vectors.
        chunks: The chunks of these points.
        proposal: The proposed `metadata` setting, with the keys that the settings map.
    """

    config: RetrieverConfig
    model: Maker
    info: CollectionInfo
    stored: "models.CollectionInfo"
    points: Points
    chunks: Sequence[Chunk]
    proposal: Proposal


def look(config: RetrieverConfig, env: Mapping[str, str], model: Maker) -> Inspection:
    """Read the facts of a collection. Nothing is written.

    Args:
        config: The settings of a retriever for it.
        env: The environment that holds the key of its store.
        model: Makes the embedding model, or returns it.

    Raises:
        StoreError: The store failed.
    """
    with closing(open_client(config.store, env, config.collection)) as client:
        info = describe(client, config)
        with store_errors(config.store, info.name):
            stored = client.get_collection(info.name)
            points = _points(client, config, info)
    proposal, metadata = propose([point.payload or {} for point in points]), config.metadata
    missing = tuple(name for name in proposal.missing if name not in metadata.map)
    proposal = replace(proposal, map={**proposal.map, **metadata.map}, missing=missing)
    if proposal.text_key and metadata.model_fields_set <= {"required", "map"}:
        keys = {"text_key": proposal.text_key, "nested_under": proposal.nested_under, "map": proposal.map}
        metadata = metadata.model_copy(update=keys)
    language = {"language": info.manifest.get("bm25", {}).get("language", config.keyword.language)}
    keyword = config.keyword.model_copy(update=language | config.keyword.model_dump(exclude_unset=True))
    config = config.model_copy(update={"vector_name": info.vector_name, "metadata": metadata, "keyword": keyword})
    chunks = [to_chunk(point.id, point.payload, metadata) for point in points]
    if name := _only_terms(config, info, points, chunks):
        config = config.model_copy(update={"keyword": keyword.model_copy(update={"vector_name": name})})
    return Inspection(
        config=config, model=model, info=info, stored=stored, points=points, chunks=chunks, proposal=proposal
    )


def _points(client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo) -> Points:
    """Read some points. A server draws them at random, since the first points are often of few pages."""
    from qdrant_client import models

    if config.store.url and info.points > SAMPLE:
        drawn = models.SampleQuery(sample=models.Sample.RANDOM)
        return client.query_points(info.name, query=drawn, limit=SAMPLE, with_payload=True, with_vectors=True).points
    return [*records(client, config, count=SAMPLE, with_vectors=True)]


def write_experiment(file: Path, seen: Inspection, env: Mapping[str, str], golden: str) -> None:
    """Write an experiment for a collection, with the proposed `metadata`, after a check that its retriever opens.

    Its golden data are `golden`, the name of a file beside it.

    The mode is hybrid if the collection has a keyword side and the settings name no mode.

    Raises:
        RetrievalError: The file exists or cannot be written, or the retriever does not open, for example since another
            model embedded the collection.
    """
    config, proposal = seen.config, seen.proposal
    mapped = {name: key for name, key in proposal.map.items() if ALIASES.get(key) != name}
    text_key = proposal.text_key or config.metadata.text_key
    metadata = {"map": mapped, "text_key": text_key, "nested_under": proposal.nested_under}
    changes: dict[str, Any] = {"metadata": config.metadata.model_copy(update=metadata)}
    has_bm25 = seen.info.sparse_vectors.get(config.keyword.vector_name)
    if has_bm25 and "mode" not in config.model_fields_set:
        changes["mode"] = "hybrid"
    open_retriever(config.model_copy(update=changes), env=env, embeddings=seen.model()).close()
    changes["store"] = placed(config.store, config.collection, file)
    retriever = config.model_copy(update=changes).model_dump(mode="json", exclude_defaults=True)
    written = {"name": config.collection, "retriever": retriever, "dataset": {"path": golden}}
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(yaml.safe_dump(written, sort_keys=False))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror}); name another file with --write") from error


# As text


def inspection_text(seen: Inspection) -> str:
    """Render the facts of a collection for the terminal: what it holds, the proposed settings, and its faults."""
    info, proposal = seen.info, seen.proposal
    recorded = info.manifest.get("embedding")
    vectors = ", ".join(f"{name or '(unnamed)'}: {size}" for name, size in info.vectors.items())
    values = values_by_key([point.payload or {} for point in seen.points])
    width = max(map(len, values), default=0)
    keys = list[str]()
    for key, examples in values.items():
        types = Counter(type(value).__name__ for value in examples).items()
        counts = ", ".join(f"{name} × {count}" for name, count in types)
        keys.append(f"  {key:<{width}}  {counts:<12}  {' '.join(str(examples[0]).split())[:60]}")
    lines = [
        f"Collection   {info.name}",
        f"Points       {info.points:,}",
        f"Vectors      {vectors}; distance {info.distance}",
        f"Sparse       {', '.join(info.sparse_vectors) or 'none'}",
        f"Embedded by  {'{provider}:{model}'.format(**recorded) if recorded else 'none recorded'}",
        f"Index        {', '.join(f'{k} {str(v).lower()}' for k, v in info.index.items()) or 'none recorded'}",
        f"State        {info.manifest.get('state', 'not made by retrievers index')}",
        "",
        "Payload keys (of some points):",
        *keys,
        "",
        "Proposed setting for your experiment file (check it against the examples above):",
        yaml.safe_dump({"retriever": _proposed(seen)}, sort_keys=False).rstrip(),
        "",
        f"Found under their own names: {', '.join(proposal.same_name) or 'none'}",
        f"Not found: {', '.join(proposal.missing) or 'none'}",
        "",
        f"Checked on {len(seen.points):,} points:",
    ]
    for name, fault in audit(seen).items():
        mark = "ok" if not fault else "–" if fault.startswith(UNCHECKED) else "FAULT"
        lines.append(f"  {mark:<6}{name}{fault and ': '}{fault}")
    return "\n".join(lines)


def _proposed(seen: Inspection) -> dict[str, Any]:
    """Return the proposed settings for the vectors and the payload."""
    config, proposal = seen.config, seen.proposal
    keyword = config.keyword.model_dump(include={"vector_name", "language"}, exclude_defaults=True)
    metadata: dict[str, Any] = {"text_key": proposal.text_key or "?", "nested_under": proposal.nested_under}
    metadata |= {"map": dict(proposal.map)} if proposal.map else {}
    settings = {"vector_name": config.vector_name, "keyword": keyword, "metadata": metadata}
    return {name: value for name, value in settings.items() if value}


# The audit


def audit(seen: Inspection) -> dict[str, str]:
    """Return the fault that each check found, by the name of the check: empty for none, or why it was not checked."""
    if not seen.points:
        return {"points": f"collection {seen.info.name!r} holds none; python -m retrievers index DIR"}
    fault = distance_fault(seen.info, seen.points)
    unsearched = {"distance": f"it {fault}"} if fault else {}
    return unsearched | {name: check(seen) for name, check in CHECKS.items()}


def _only_terms(config: RetrieverConfig, info: CollectionInfo, points: Points, chunks: Sequence[Chunk]) -> str:
    """Return the name of the only sparse vector if the settings name none, and if it is of the configured encoder.

    A vector of BM25 has most terms of its text. Other programs may stem some words in another way.
    """
    keyword = config.keyword
    named = "vector_name" in keyword.model_fields_set or keyword.vector_name in info.sparse_vectors
    if named or len(info.sparse_vectors) != 1:
        return ""
    [name], encoder = info.sparse_vectors, Bm25Encoder(keyword.language)
    vectors = [by_name(point.vector).get(name) for point in points]
    terms = [
        ({*vector.indices}, {*encoder.document(chunk.indexed_text).indices})
        for vector, chunk in zip(vectors, chunks, strict=True)
        if vector
    ]
    shared, total = sum(len(own & ours) for own, ours in terms), sum(len(own | ours) for own, ours in terms)
    return name if 2 * shared > total else ""


def _same_model(seen: Inspection) -> str:
    """Say that the collection holds vectors of another model than the configured one."""
    config = seen.config
    try:
        fault = model_fault(config, seen.info, seen.model, seen.points)
    except RetrievalError as error:
        return f"no text could be embedded again, so that it is not known: {error}"
    if fault and "embedding" not in config.model_fields_set and "embedding" not in seen.info.manifest:
        return f"{UNCHECKED}: not the packaged model embedded it; name which (--embedding.model PROVIDER:NAME)"
    return fault and f"it {fault}"


def _without_bm25(seen: Inspection) -> str:
    """Say that there is no sparse vector of BM25 to be checked."""
    keyword, sparse = seen.config.keyword, seen.info.sparse_vectors
    if keyword.vector_name in sparse:
        return ""
    has = f"; name keyword.vector_name, of {', '.join(map(repr, sparse))}" if sparse else ""
    return f"{UNCHECKED}: there is no sparse vector of BM25 named {keyword.vector_name!r}{has}"


def _idf(seen: Inspection) -> str:
    """Say that the terms of BM25 are not weighed by how rare they are."""
    if missing := _without_bm25(seen):
        return missing
    name = seen.config.keyword.vector_name
    has_idf = seen.info.sparse_vectors[name]
    return "" if has_idf else f"sparse vector {name!r} has no IDF modifier; set it by client.update_collection"


def _average_length(seen: Inspection) -> str:
    """Say that BM25 weights were made for texts of another average length.

    The weight v of a term that occurs f times tells the average A: v = f·(k + 1) / (f + k·(1 − b + b · length / A)).
    A chunk's smallest weight is that of its rarest term.
    """
    if missing := _without_bm25(seen):
        return missing
    encoder = Bm25Encoder(seen.config.keyword.language)
    counts = [list(encoder.counts(chunk.indexed_text).values()) for chunk in seen.chunks]
    terms = [by_name(point.vector).get(seen.config.keyword.vector_name) for point in seen.points]
    smallest = [min(getattr(vector, "values", ()), default=0.0) for vector in terms]
    weighed = [(n, v) for n, v in zip(counts, smallest, strict=True) if n and v > 0]
    known = [(sum(n), min(n) * ((K + 1) / v - 1) - K * (1 - B)) for n, v in weighed]
    # No average gives a term of 0 or less: it is due to rounding, or to weights of another kind than BM25.
    used = [K * B * length / term for length, term in known if term > 0]
    actual, assumed = fmean(filter(None, map(sum, counts))) if used else 0.0, median(used or [0.0])
    if abs(assumed - actual) <= TOLERATED * actual:
        return ""
    return f"weights were made for {assumed:.0f} terms a chunk, chunks have {actual:.0f}; make them with that avg_len"


def _optimiser(seen: Inspection) -> str:
    """Say that the optimiser failed, is at work, or waits."""
    error = getattr(seen.stored.optimizer_status, "error", "")
    return {
        "red": f"it failed ({error}); see the log of the server, and free its disk or memory",
        "yellow": "it is at work, so that recall and latency change; measure when the status is green",
        "grey": "it waits for the next write, and the index lacks what was written last; write a point again",
    }.get("red" if error else seen.stored.status, "")


def _hnsw(seen: Inspection) -> str:
    """Say that a collection large enough for an index has none."""
    kilobytes = seen.info.points * seen.info.dimension * 4 / 1024
    config = seen.stored.config
    is_off = 0 in (config.hnsw_config.m, config.optimizer_config.indexing_threshold)
    if kilobytes <= UNINDEXED_KB or not seen.config.store.url or not is_off:
        return ""
    remedy = "raise what is 0 of hnsw_config.m and indexing_threshold"
    return f"no index of {kilobytes:,.0f} KB of vectors, so that every search reads them all; {remedy}"


def _quantisation(seen: Inspection) -> str:
    """Say that quantised scores are not rescored."""
    vectors = seen.stored.config.params.vectors
    vector: Any = vectors.get(seen.config.vector_name) if isinstance(vectors, dict) else vectors
    settings = getattr(vector, "quantization_config", None) or seen.stored.config.quantization_config
    kind = next(iter(settings.model_dump(exclude_none=True)), "unknown") if settings else ""
    rescored = (seen.config.search_params or {}).get("quantization", {}).get("rescore")
    # The server rescores these kinds by default, since their scores are too coarse.
    if not kind or rescored or (kind in ("binary", "turbo") and rescored is None):
        return ""
    return f"{kind} scores are not rescored; set search_params: {{quantization: {{rescore: true, oversampling: 2}}}}"


def _empty(seen: Inspection) -> str:
    """Say that chunks have no text."""
    empty = sum(not chunk.text.strip() for chunk in seen.chunks)
    key = seen.config.metadata.text_key
    return f"{empty} of {len(seen.chunks)} chunks have no text under {key!r}; set metadata.text_key" if empty else ""


def _tiny(seen: Inspection) -> str:
    """Say that many chunks hold a few words, which are near to many queries and answer none."""
    tiny = [chunk.text for chunk in seen.chunks if 0 < len(chunk.text.split()) < TINY_WORDS]
    if len(tiny) <= MANY_TINY * len(seen.chunks):
        return ""
    message = f"{len(tiny)} of {len(seen.chunks)} chunks have fewer than {TINY_WORDS} words, such as {tiny[0][:40]!r}"
    return f"{message}; join them to their neighbours (index.merge_small)"


def _duplicates(seen: Inspection) -> str:
    """Say that texts are stored more than once, and take the places of others in a result."""
    texts = (text for chunk in seen.chunks if (text := " ".join(chunk.text.split())))
    return _repeated(texts, f"of {len(seen.chunks)} texts repeat another", "keep one of each")


def _chunk_ids(seen: Inspection) -> str:
    """Say that chunks share an id, by which all of them are relevant if one is."""
    remedy = "leave metadata.map.chunk_id out, or name a key there that no point has: then the points' own ids count"
    ids = (chunk.chunk_id for chunk in seen.chunks)
    return _repeated(ids, f"of {len(seen.chunks)} repeat another, and count as one", remedy)


def _repeated(texts: Iterable[str], told: str, remedy: str) -> str:
    counts = Counter(texts)
    copies = counts.total() - len(counts)
    often = "".join(f"{text[:50]!r} ({count} times)" for text, count in counts.most_common(1))
    return f"{copies} {told}, such as {often}; {remedy}" if copies else ""


def _values(seen: Inspection) -> str:
    """Say that the payload holds values which their field cannot take."""
    problems = [problem for chunk in seen.chunks for problem in chunk.problems]
    most = max(([one for one in problems if one.startswith(f"{name}: ")] for name in METADATA_FIELDS), key=len)
    told = f"{len(most)} of {len(seen.chunks)} chunks lack {''.join(most[:1])[:150]}"
    return f"{told}; map another key (metadata.map)" if most else ""


def _vectors(seen: Inspection) -> str:
    """Say that points lack the vector that is searched."""
    name = seen.config.vector_name
    bare = sum(by_name(point.vector).get(name) is None for point in seen.points)
    told = f"{bare} of {len(seen.points)} points have no vector {name!r}, so that no search by it finds them"
    return f"{told}; embed their texts" if bare else ""


def _filter_index(seen: Inspection) -> str:
    """Say that a field which the settings filter or group by has no payload index."""
    filters, group_by = seen.config.filters, seen.config.group_by
    tree = to_filter(filters) if filters and not is_qdrants(filters) else None
    used = {*(condition.key for condition in (conditions(tree) if tree else ())), *filter(None, [group_by])}
    keys = {name: possible_keys(name, seen.config.metadata) for name in used}
    lacking = {name: own[0] for name, own in keys.items() if seen.info.indexed.keys().isdisjoint(own)}
    bare = ", ".join(sorted({name if "." in name else key for name, key in lacking.items()}))
    return f"none on {bare}, so that every payload is read; make one" if bare and seen.config.store.url else ""


CHECKS: Mapping[str, Callable[[Inspection], str]] = {
    "embedding model": _same_model,
    "IDF of BM25": _idf,
    "average length of BM25": _average_length,
    "optimiser": _optimiser,
    "vector index": _hnsw,
    "quantisation": _quantisation,
    "vectors": _vectors,
    "empty texts": _empty,
    "tiny texts": _tiny,
    "duplicate texts": _duplicates,
    "chunk ids": _chunk_ids,
    "payload values": _values,
    "index of filtered fields": _filter_index,
}
