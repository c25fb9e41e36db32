"""Facts that make two runs comparable: fingerprints, versions and commit. The collection is read again at the end."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from evals.cases.reading import GoldenSet
from evals.grid.measure import Measured
from evals.metrics.criteria import undecided
from evals.metrics.declaration import Collaborators
from evals.report.model import CollectionFacts, Facts, JudgeFacts
from retrievers.errors import StoreError
from retrievers.retriever.protocol import Retriever
from retrievers.store.chunks import unit
from retrievers.store.collection import by_name
from retrievers.text.shown import redacted

if TYPE_CHECKING:
    from evals.collect.saved import SavedPool
    from evals.judge.chat import Chat

LIBRARIES = (
    "retrieval-evals", "ragas", "datasets", "qdrant-client", "langchain-core", "langchain-qdrant", "mlflow", "numpy",
    "scipy", "wordllama", "langchain-cohere", "cohere", "langchain-openai", "openai", "sentence-transformers",
)  # fmt: skip


def gather(golden: GoldenSet, bench: Collaborators, saved: "SavedPool | None") -> Facts:
    """Return all facts of a run that are known at its beginning.

    Args:
        golden: The golden queries.
        bench: The retriever that is evaluated, and the judge if there is one.
        saved: The saved retrieval that the run starts from, in place of the retriever.

    Raises:
        StoreError: The collection cannot be read.
    """
    if saved:
        recorded, label, embedding = saved.origin.collection, saved.origin.label, saved.origin.embedding
        collection = CollectionFacts.model_validate(recorded) if recorded else None
    else:
        collection, label = collection_facts(bench.retriever), bench.retriever.label
        embedding = bench.retriever.embedding_label
    return Facts(
        started_at=_now(),
        dataset=golden.name,
        dataset_fingerprint=golden.fingerprint,
        collection=collection,
        retriever=label,
        saved_retrieval=f"{saved.name}, saved at {saved.origin.saved_at}" if saved else None,
        embedding=embedding,
        judge=judge_facts(*(tier.chat for tier in bench.judge.tiers)) if bench.judge else None,
        versions=versions(),
        commit=code_commit(),
    )


def checked_at_end(result: Measured, facts: Facts, retriever: Retriever) -> tuple[Measured, Facts]:
    """Compare the collection with its facts at the beginning. If it changed, say so, and leave every gate undecided.

    Args:
        result: A run that was just measured.
        facts: The facts of the run at its beginning.
        retriever: The retriever of the run.
    """
    if facts.collection is None:
        return result, facts
    try:
        after = collection_facts(retriever)
        change = differences(facts.collection, after) if after else ""
    except StoreError as error:  # a collection that cannot be read any more must not lose the run
        change = f"it cannot be read any more ({error})"
    if change:
        when = f"between {facts.started_at} and {_now()}"
        note = f"the collection changed {when}: {change}; the figures are of neither state, run it again"
        result = replace(result, gates=undecided(result.gates, note), notes=[note, *result.notes])
    return result, facts.model_copy(update={"collection_changed": change or None})


def judge_facts(*chats: "Chat") -> JudgeFacts:
    """Return everything besides the question that the verdicts of a judge depend on, with a fingerprint of it.

    Args:
        chats: The model; with `judge.second` the models of both judges, the cheaper one first.
    """
    *cheaper, chat = chats
    parameters = {name: redacted(v) if isinstance(v, str) else v for name, v in chat.parameters.items()}
    if cheaper:
        parameters["tiers"] = [f"{tier.provider}:{tier.name}" for tier in cheaper]
    facts = {"provider": chat.provider, "model": chat.name, "parameters": parameters, "ragas": version("ragas")}
    return JudgeFacts.of(facts | {"fingerprint": _fingerprint(facts)})


def collection_facts(retriever: Retriever) -> CollectionFacts | None:
    """Return the collection as it is now: size, vectors, recorded model, and a hash of the content of up to 256 points.

    None for a retriever whose chunks cannot be listed.

    Raises:
        StoreError: The store failed.
    """
    described = retriever.describe()
    if described is None:
        return None
    info, points = described
    digest = hashlib.sha256()
    for point_id, point in sorted(points.items()):
        digest.update(f"{point_id}\0{json.dumps(point.payload or {}, sort_keys=True, default=str)}\0".encode())
        # Of length 1 and rounded, since qdrant-client's local mode normalises vectors in place at every search.
        [vector] = unit([by_name(point.vector).get(info.vector_name, ())])
        digest.update(f"{round(float(vector[::2].sum() - vector[1::2].sum()), 1) + 0.0}\0".encode())
    content = {
        "dimension": info.dimension,
        "distance": info.distance,
        "vectors": dict(info.vectors),
        "sparse_vectors": list(info.sparse_vectors),
        "embedding": dict(info.manifest.get("embedding", {})),
        "sampled_points": len(points),
        "sample_hash": digest.hexdigest(),
    }
    fingerprint = _fingerprint({"points": info.points, **content})
    return CollectionFacts(name=info.name, points=info.points, fingerprint=fingerprint, content=content)


def _fingerprint(facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of facts as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that scores depend on."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def code_commit() -> str:
    """Return the commit of the working directory, with `-dirty` if files differ; `unknown` outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def differences(before: CollectionFacts, after: CollectionFacts) -> str:
    """Return the differences of two states of a collection, in words; empty if they are the same."""
    first, second = ({"points": facts.points, **facts.content} for facts in (before, after))
    changed = [name for name in first if first[name] != second[name] and not name.startswith("sample")]
    texts = [f"{name.replace('_', ' ')} {first[name]!r} → {second[name]!r}" for name in changed]
    if first["sample_hash"] != second["sample_hash"]:
        texts.append(f"content of {first['sampled_points']:,} sampled points")
    return ", ".join(texts)
