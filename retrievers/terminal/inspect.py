"""A look at a collection: what it is made of, what a retriever has to be told of it, and what is wrong with it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import yaml

from retrievers.config import RetrieverConfig, dump
from retrievers.config.files import LOCAL_MODE
from retrievers.config.filters import comparisons, parse, qdrant_filter
from retrievers.embedding.bm25 import B, Bm25Encoder, K
from retrievers.embedding.models import make_embeddings
from retrievers.errors import ConfigError, RetrievalError, StoreError
from retrievers.records import ALIASES, Chunk
from retrievers.retriever.opened import open_retriever
from retrievers.store import CollectionInfo, describe, embedded_folder, open_client, read_info, store_errors
from retrievers.store.checks import SAME_MODEL_COSINE, least_cosine, other_model
from retrievers.store.chunks import all_metadata, to_chunk
from retrievers.store.chunks import payload_keys as keys_of
from retrievers.store.inspection import SAMPLE, PayloadKey, Proposal, payload_keys, propose, sample

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

# Asked of a retriever whose chunks cannot be listed, so that it shows some.
QUESTION = "What is this about?"
# Points whose texts and vectors are read, those of one request, and those whose texts are embedded again.
POINTS, PAGE, EMBEDDED_AGAIN = 512, 100, 8
TINY_WORDS = 5
# Share of the texts from which tiny ones are a fault.
MANY_TINY = 0.05
# KB of vectors up to which a server builds no index by default.
UNINDEXED_KB = 10_000
# Relative deviation of the average length from which scores of short and long chunks shift by more than a tenth.
TOLERATED = 0.3
RESCORE = "search_params: {quantization: {rescore: true, oversampling: 2}}"


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was seen of a collection, or of the user's own retriever.

    Attributes:
        config: The settings; where they name no vector, and the collection has one alone under a name, with that name.
        info: Properties of the collection; None where it is not known.
        payloads: Payloads of some chunks, or the metadata of what the user's retriever returns for a question.
        health: The names of the checks, each with the fault and its remedy, empty where there is none.
        read: Number of points that the checks read.
    """

    config: RetrieverConfig
    info: CollectionInfo | None
    payloads: Sequence[Mapping[str, Any]]
    health: Mapping[str, str]
    read: int = 0

    @property
    def proposal(self) -> Proposal:
        """The `metadata` setting that is proposed."""
        return propose(self.payloads)

    def text(self) -> str:
        """Render what was seen for the terminal."""
        shown = payload_text(payload_keys(self.payloads), self.proposal, self.config.vector_name)
        if self.info is None:
            return (
                f"Retriever    python {self.config.python}\nCollection   not known: its chunks cannot be listed\n"
                f"Looked at    {len(self.payloads)} documents, which it returned for {QUESTION!r}\n\n{shown}"
            )
        return "\n".join(filter(None, (f"{collection_text(self.info)}\n\n{shown}", self._health())))

    def _health(self) -> str:
        if not self.health:
            return ""
        lines = [
            f"  {'FAULT' if fault else 'ok':<6}{name}{f': {fault}' if fault else ''}"
            for name, fault in self.health.items()
        ]
        return "\n".join([f"\nChecked on {self.read:,} points:", *lines])


def look(config: RetrieverConfig, env: Mapping[str, str]) -> Look:
    """Look at a collection, at that behind the user's own retriever, or at what this returns. Nothing is written.

    Raises:
        RetrievalError: The store or the retriever failed.
    """
    if config.python is None:
        client = open_client(config.store, env)
        try:
            config = _with_only_vector(config, read_info(client, config))
            info = describe(client, config)
            payloads = sample(client, config, info.limits)
            points = _points(client, config, info)
            health = checked(client, config, env, info, points)
            return Look(config=config, info=info, payloads=payloads, health=health, read=len(points))
        finally:
            client.close()
    with open_retriever(config, env=env) as retriever:
        if retriever.info is not None:
            payloads = [payload for _, payload in retriever.sample(SAMPLE)]
            return Look(config=config, info=retriever.info, payloads=payloads, health={})
        session = retriever.search(QUESTION)
    if session.error:
        raise ConfigError(f"{session.error} (it was asked {QUESTION!r})")
    return Look(config=config, info=None, payloads=[_payload(hit.chunk) for hit in session.chunks], health={})


def write_experiment(file: Path, seen: Look, env: Mapping[str, str]) -> None:
    """Write an experiment on what was looked at, with the proposed `metadata`, after opening the retriever by it.

    It searches in hybrid mode where the collection has the keyword side for it, and the settings name no mode.

    Raises:
        RetrievalError: The file exists or cannot be written, or the settings do not open the retriever: its embedding
            model is another one, for example.
    """
    config, proposal = seen.config, seen.proposal
    mapping = {name: key for name, key in proposal.map.items() if ALIASES.get(key) != name}
    metadata: dict[str, Any] = {"map": mapping}
    if config.python is None or proposal.text_key not in (None, "page_content"):
        metadata |= {"text_key": proposal.text_key or config.metadata.text_key, "nested_under": proposal.nested_under}
    changes: dict[str, Any] = {"metadata": config.metadata.model_copy(update=metadata)}
    if config.python is None and config.store.url is None:
        folder = embedded_folder(config.store).absolute()
        path = Path(f"{LOCAL_MODE}{folder}") if config.store.local_mode else folder
        changes["store"] = config.store.model_copy(update={"path": path})
    keyword = config.keyword.vector_name
    if seen.info and "mode" not in config.model_fields_set and keyword in seen.info.sparse_vectors:
        changes |= {"mode": "hybrid"} if config.python is None and keyword not in seen.info.without_idf else {}
    settings = config.model_copy(update=changes)
    open_retriever(settings, env=env).close()
    retriever = _differing(dump(settings), dump(RetrieverConfig.model_validate({})))
    name = {} if config.python is not None else {"name": config.collection}
    text = yaml.safe_dump({**name, "retriever": retriever, "dataset": {"path": "golden.jsonl"}}, sort_keys=False)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise ConfigError(f"{file}: exists already; name another file with --write") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror})") from error


def collection_text(info: CollectionInfo) -> str:
    """Render a collection: size, vectors, recorded model and settings of indexing."""
    recorded = info.manifest.get("embedding")
    model = f"{recorded['provider']}:{recorded['model']}" if recorded else "none recorded"
    vectors = ", ".join(f"{name or '(unnamed)'}: {size}" for name, size in info.vectors.items())
    lines = [
        f"Collection   {info.name}",
        f"Points       {info.points:,}{f' of the {info.points + info.lost:,} that were indexed' if info.lost else ''}",
        f"Vectors      {vectors}; distance {info.distance}",
        f"Sparse       {', '.join(info.sparse_vectors) or 'none'}",
        f"Embedded by  {model}",
        f"Index        {', '.join(f'{k} {str(v).lower()}' for k, v in info.index.items()) or 'none recorded'}",
        f"State        {info.manifest.get('state', 'not made by retrievers index')}",
    ]
    return "\n".join(lines)


def payload_text(keys: Sequence[PayloadKey], proposal: Proposal, vector_name: str = "") -> str:
    """Render payload keys, and the settings that are proposed for them and for a vector of that name."""
    lines = ["Payload keys (of the first points):"]
    width = max((len(key.key) for key in keys), default=0)
    for key in keys:
        types = ", ".join(f"{kind} × {count}" for kind, count in key.types.items())
        lines.append(f"  {key.key:<{width}}  {types:<12}  {key.example}")
    setting: dict[str, Any] = {"text_key": proposal.text_key or "?", "nested_under": proposal.nested_under}
    if proposal.map:
        setting["map"] = dict(proposal.map)
    named = {"vector_name": vector_name} if vector_name else {}
    lines += [
        "",
        "Proposed setting for your experiment file (check it against the examples above):",
        yaml.safe_dump({"retriever": named | {"metadata": setting}}, sort_keys=False).rstrip(),
        "",
        f"Found under their own names: {', '.join(proposal.same_name) or 'none'}",
        f"Not found: {', '.join(proposal.missing) or 'none'}",
    ]
    return "\n".join(lines)


def _with_only_vector(config: RetrieverConfig, info: CollectionInfo) -> RetrieverConfig:
    single = [name for name in info.vectors if name not in info.multivectors]
    if config.vector_name or "" in info.vectors or len(single) != 1:
        return config
    return config.model_copy(update={"vector_name": single[0]})


def _payload(chunk: Any) -> dict[str, Any]:
    stand_ins = {ALIASES[key] for key in chunk.extra if key in ALIASES}
    own = {k: v for k, v in all_metadata(chunk).items() if k not in ("chunk_id", "chunk_text_preview", *stand_ins)}
    return {"page_content": chunk.text, "metadata": own}


def _differing(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not as by default."""
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    return {
        name: _differing(value, defaults[name])
        if isinstance(value, dict) and isinstance(defaults[name], dict) and name != "map"
        else value
        for name, value in changed.items()
    }


# Its health


@dataclass(frozen=True, kw_only=True)
class Point:
    """A stored point: its payload read as a chunk, its dense vector, the weights of its keyword vector."""

    chunk: Chunk
    dense: Sequence[float] | None
    weights: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the checks read of a collection.

    Attributes:
        config: Settings of the retriever that is to search it.
        env: The environment that holds the key of the embedding model.
        info: Its properties.
        stored: Its properties in the client's terms.
        points: Some of its points.
    """

    config: RetrieverConfig
    env: Mapping[str, str]
    info: CollectionInfo
    stored: "models.CollectionInfo"
    points: Sequence[Point]

    def call(self, arguments: str) -> str:
        """Return the call of qdrant-client that changes the collection."""
        return f"client.update_collection({self.info.name!r}, {arguments})"

    def of(self, number: int) -> str:
        """Return a number of the points that were read."""
        return f"{number} of {len(self.points)} chunks"


def checked(
    client: "QdrantClient",
    config: RetrieverConfig,
    env: Mapping[str, str],
    info: CollectionInfo,
    points: Sequence[Point],
) -> dict[str, str]:
    """Return the faults of a collection, each with its remedy, by the name of the check; empty for none."""
    if not points:
        return {"points": f"collection {info.name!r} holds none; python -m retrievers index DIR"}
    with store_errors(config.store, info.name):
        stored = client.get_collection(info.name)
    reading = Reading(config=config, env=env, info=info, stored=stored, points=points)
    return {name: check(reading) for name, check in CHECKS.items()}


def _points(client: "QdrantClient", config: RetrieverConfig, info: CollectionInfo) -> list[Point]:
    """Return points that a server draws by chance, or the first ones of a small or embedded collection.

    The first ones of a large collection are often those of a few pages; in an embedded one their ids are hashes.
    """
    from qdrant_client import models

    records: dict[Any, models.Record | models.ScoredPoint] = {}
    if config.store.url and info.points > POINTS:
        chance = models.SampleQuery(sample=models.Sample.RANDOM)
        try:
            with store_errors(config.store, info.name):
                for _ in range(POINTS // PAGE):
                    drawn = client.query_points(
                        info.name, query=chance, limit=PAGE, with_payload=True, with_vectors=True
                    )
                    records |= {point.id: point for point in drawn.points}
        except StoreError as error:  # an older server draws nothing by chance
            if error.transient:
                raise
    offset: Any = None
    while not records or (offset is not None and len(records) < POINTS):
        with store_errors(config.store, info.name):
            page, offset = client.scroll(info.name, limit=PAGE, offset=offset, with_payload=True, with_vectors=True)
        records |= {record.id: record for record in page}
        if not page:
            break
    return [_point(record, config) for record in records.values()]


def _point(record: "models.Record | models.ScoredPoint", config: RetrieverConfig) -> Point:
    vectors: Any = record.vector
    named = vectors if isinstance(vectors, dict) else {"": vectors}
    dense = named.get(config.vector_name)
    return Point(
        chunk=to_chunk(record.id, record.payload, config.metadata),
        dense=dense if isinstance(dense, list) and any(dense) else None,
        weights=getattr(named.get(config.keyword.vector_name), "values", ()),
    )


def _same_model(read: Reading) -> str:
    """Say that the collection holds vectors of another model than the configured one."""
    embedding, recorded = read.config.embedding, read.info.manifest.get("embedding")
    if recorded and (models := other_model(embedding, recorded)):
        return (
            f"it was embedded by {models[0]}, and queries would be by {models[1]}; set embedding to what is recorded, "
            "or index into another collection"
        )
    chosen = [point for point in read.points if point.dense and point.chunk.text]
    chosen = chosen[:: max(1, len(chosen) // EMBEDDED_AGAIN)][:EMBEDDED_AGAIN]
    if not chosen:
        return "no point has both a vector and a text to embed again; see metadata.text_key and vector_name"
    try:
        vectors = make_embeddings(embedding, read.env).embed_documents([point.chunk.indexed_text for point in chosen])
    except RetrievalError as error:
        return f"no text could be embedded again, so that it is not known: {error}"
    if len(vectors[0]) != read.info.dimension:
        return f"{embedding.label} makes {len(vectors[0])} dimensions, its vectors have {read.info.dimension}"
    least = least_cosine(vectors, [point.dense or () for point in chosen])
    if least >= SAME_MODEL_COSINE:
        return ""
    return (
        f"of {len(chosen)} texts embedded again by {embedding.label}, one has cosine {least:.3f} to its stored vector, "
        f"expected at least {SAME_MODEL_COSINE}; configure the model and prefixes it was made with"
    )


def _idf(read: Reading) -> str:
    """Say that the terms of BM25 are not weighed by how rare they are."""
    name = read.config.keyword.vector_name
    if name not in read.info.without_idf or read.config.keyword.scale != "bm25":
        return ""
    parameters = f"{{{name!r}: models.SparseVectorParams(modifier=models.Modifier.IDF)}}"
    return (
        f"sparse vector {name!r} has no IDF modifier, so that its scores are not BM25; "
        f"{read.call(f'sparse_vectors_config={parameters}')}"
    )


def _optimiser(read: Reading) -> str:
    """Say that the optimiser failed, is at work, or waits."""
    start = read.call("optimizers_config=models.OptimizersConfigDiff()")
    status, optimiser = read.stored.status, read.stored.optimizer_status
    if status == "red" or not isinstance(optimiser, str):
        words = getattr(optimiser, "error", "no reason given")
        return f"it failed ({words}); see the log of the server, free its disk or memory, then {start}"
    if status == "yellow":
        return "it is at work, so that recall and latency change; measure when the status is green"
    return (
        f"it waits for the next write, and the index lacks what was written last; {start}" if status == "grey" else ""
    )


def _hnsw(read: Reading) -> str:
    """Say that a collection large enough for an index has none."""
    kilobytes = read.info.points * read.info.dimension * 4 / 1024
    if kilobytes <= UNINDEXED_KB or not read.config.store.url:
        return ""
    seen = f"no index of {kilobytes:,.0f} KB of vectors, so that every search reads them all"
    if read.stored.config.hnsw_config.m == 0:
        return f"{seen} (m is 0); {read.call('hnsw_config=models.HnswConfigDiff(m=16)')}"
    if read.stored.config.optimizer_config.indexing_threshold == 0:
        config = f"optimizers_config=models.OptimizersConfigDiff(indexing_threshold={UNINDEXED_KB})"
        return f"{seen} (indexing_threshold is 0); {read.call(config)}"
    return ""


def _quantisation(read: Reading) -> str:
    """Say that quantised scores are not rescored."""
    vectors = read.stored.config.params.vectors
    vector: Any = vectors.get(read.config.vector_name) if isinstance(vectors, dict) else vectors
    settings = getattr(vector, "quantization_config", None) or read.stored.config.quantization_config
    kind = next(iter(settings.model_dump(exclude_none=True)), "unknown") if settings else ""
    rescored = (read.config.search_params or {}).get("quantization", {}).get("rescore")
    # The server rescores binary ones by itself: their scores order nothing.
    if not kind or rescored or (kind in ("binary", "turbo") and rescored is None):
        return ""
    return f"{kind} scores are not rescored: neighbours are lost, and a threshold cuts elsewhere; {RESCORE}"


def _empty(read: Reading) -> str:
    """Say that chunks have no text."""
    empty = [point.chunk.point_id for point in read.points if not point.chunk.text.strip()]
    return (
        f"{read.of(len(empty))} have no text under payload key {read.config.metadata.text_key!r} (the first: point "
        f"{empty[0]}); set metadata.text_key, or delete those points"
        if empty
        else ""
    )


def _tiny(read: Reading) -> str:
    """Say that many chunks hold a few words, which are near to many queries and answer none."""
    texts = [point.chunk.text.strip() for point in read.points]
    tiny = [text for text in texts if 0 < len(text.split()) < TINY_WORDS]
    return (
        f"{read.of(len(tiny))} have fewer than {TINY_WORDS} words, such as {tiny[0][:40]!r}; join them to their "
        "neighbours (index.merge_small)"
        if len(tiny) > MANY_TINY * len(texts)
        else ""
    )


def _duplicates(read: Reading) -> str:
    """Say that texts are stored more than once, and take the places of others in a result."""
    counts = Counter(" ".join(point.chunk.text.split()) for point in read.points)
    counts.pop("", None)
    again = sum(count - 1 for count in counts.values())
    text, count = counts.most_common(1)[0] if counts else ("", 0)
    return (
        f"{again} of {len(read.points)} texts repeat another, such as {text[:50]!r} ({count} times); keep one of each"
        if again
        else ""
    )


def _filter_index(read: Reading) -> str:
    """Say that a field which the settings filter or group by has no payload index."""
    filters = read.config.filters
    used = {read.config.group_by} if read.config.group_by else set[str]()
    if filters and not qdrant_filter(filters):
        used |= {condition.field for condition in comparisons(parse(filters))}
    fields = [keys_of(ALIASES.get(name, name), read.config.metadata) if "." not in name else (name,) for name in used]
    bare = sorted(keys[0] for keys in fields if read.info.indexed.keys().isdisjoint(keys))
    if not bare or not read.config.store.url:
        return ""
    calls = (f"client.create_payload_index({read.info.name!r}, {key!r}, 'keyword')" for key in bare)
    return f"none on {', '.join(bare)}, so that every payload is read; {'; '.join(calls)}"


def _average_length(read: Reading) -> str:
    """Say that BM25 weights were made for texts of another average length.

    A weight v of a term that stands once gives the average A in use: v = (k + 1) / (1 + k · (1 − b + b · length / A)).
    """
    keyword = read.config.keyword
    encoder = Bm25Encoder(keyword.language)
    lengths, used = list[int](), list[float]()
    for point in read.points if keyword.scale == "bm25" else ():
        length, least = encoder.length(point.chunk.indexed_text), min(point.weights, default=0.0)
        if not length:
            continue
        lengths.append(length)
        # Short of 1 by rounding, or weights of another kind than BM25: no average gives them.
        part = (K + 1) / least - 1 - K * (1 - B) if least > 0 else 0.0
        if part > 0:
            used.append(K * B * length / part)
    if not used:
        return ""
    actual, assumed = sum(lengths) / len(lengths), median(used)
    return (
        f"BM25 weights were made for {assumed:.0f} terms a chunk, and {len(lengths)} chunks have {actual:.0f}, so that "
        "long chunks gain or lose on short ones; make them again with that average (avg_len of the encoder)"
        if abs(assumed - actual) > TOLERATED * actual
        else ""
    )


CHECKS: Mapping[str, Callable[[Reading], str]] = {
    "embedding model": _same_model,
    "IDF of BM25": _idf,
    "average length of BM25": _average_length,
    "optimiser": _optimiser,
    "vector index": _hnsw,
    "quantisation": _quantisation,
    "empty texts": _empty,
    "tiny texts": _tiny,
    "duplicate texts": _duplicates,
    "index of filtered fields": _filter_index,
}
