"""What makes two runs comparable: fingerprints, versions, commit."""

import hashlib
import json
import platform
import subprocess
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from evals.config.experiment import ExperimentConfig
from evals.golden.loading import GoldenSet
from evals.metrics.run_result import RunResult
from retrievers.retriever.protocol import Retriever
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from evals.judge.ask.chat import Chat

LIBRARIES = (
    "retrieval-evals", "ragas", "datasets", "qdrant-client", "langchain-core", "langchain-qdrant", "langchain-cohere",
    "cohere", "mlflow", "wordllama", "numpy", "scipy",
)  # fmt: skip
SAMPLE = 256


def gather(
    config: ExperimentConfig, golden: GoldenSet, retriever: Retriever, chat: "Chat | None" = None
) -> dict[str, Any]:
    """All facts of a run that are known before it.

    Args:
        config: The experiment.
        golden: Its golden queries.
        retriever: What is evaluated.
        chat: The judge's model, None without a judge.

    Raises:
        StoreError: The collection cannot be read.
    """
    inside = sum(case.in_scope for case in golden.cases)
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "dataset": golden.name,
        "dataset_fingerprint": golden.fingerprint,
        "cases": len(golden.cases),
        "in_scope": inside,
        "out_of_scope": len(golden.cases) - inside,
        "collection": collection_facts(retriever),
        "retriever": retriever.label,
        "relevance": "returned" if retriever.info is None else "collection",
        "embedding": retriever.embedding_label,
        "judge": None if chat is None else judge_facts(chat),
        "versions": versions(),
        "commit": code_commit(),
        "seed": config.seed,
    }


def judge_facts(chat: "Chat") -> dict[str, Any]:
    """What a judge's verdicts depend on besides the question, and a fingerprint of it and of ragas' version."""
    parameters = {name: redacted(v) if isinstance(v, str) else v for name, v in chat.parameters.items()}
    known = {"provider": chat.provider, "model": chat.name, "parameters": parameters, "ragas": version("ragas")}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    return {**known, "fingerprint": digest}


def with_duration(result: RunResult, started: float) -> RunResult:
    """The result with how long the run took, in seconds."""
    return replace(result, facts={**result.facts, "duration_s": round(time.time() - started, 3)})


def collection_facts(retriever: Retriever) -> dict[str, Any] | None:
    """The collection's fingerprint as it is now: its size, vectors and recorded model, the content of up to 256 points.

    Beside it stands how its server runs it, on which no chunk depends. None for a retriever whose chunks cannot be
    listed.

    Raises:
        StoreError: The store failed.
    """
    surveyed = retriever.survey()
    if surveyed is None:
        return None
    info, server = surveyed
    points = retriever.sample(SAMPLE)
    content = hashlib.sha256()
    for point_id, payload in sorted(points):
        content.update(f"{point_id}\0{json.dumps(payload, sort_keys=True, default=str)}\0".encode())
    known = {
        "points": info.points,
        "dimension": info.dimension,
        "distance": info.distance,
        "vectors": dict(info.vectors),
        "sparse_vectors": list(info.sparse_vectors),
        "embedding": dict(info.manifest.get("embedding", {})),
        "sampled_points": len(points),
        "sample_hash": content.hexdigest(),
    }
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    return {"name": info.name, **known, "fingerprint": digest, "server": server and asdict(server)}


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that scores depend on."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def code_commit() -> str:
    """The commit of the working directory, with `-dirty` when files differ from it; `unknown` outside a checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return f"{commit}-dirty" if _git("status", "--porcelain") else commit
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
