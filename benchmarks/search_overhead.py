"""What `QdrantRetriever.search` costs over the raw client, for each provider of embeddings.

python benchmarks/search_overhead.py [--models wordllama cohere openai huggingface:PATH] [--rounds 20]

The handbook in an embedded store, semantic, interleaved in one run; of each query the fastest call, of these the
median. The raw client and langchain-qdrant's search on it have the query's vector at hand, our search looks it up in
the cache on disk. cohere and openai are the real clients against a server on the loopback, huggingface is a model in a
folder. Bound: 10% of the raw call or 0.5 ms, whichever is more.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "datasets" / "physical_ai_handbook"


def main() -> None:
    """Measure and print a line for each provider."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["wordllama", "cohere", "openai"])
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    print("| model | dimensions | raw client, ms | langchain-qdrant, ms | search, ms | overhead, ms | of the bound |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder, embedding(model, Path(folder)) as (settings, env):
            print(f"| {model.rpartition('/')[2]} {measured(Path(folder), settings, env, options.rounds)}", flush=True)


@contextmanager
def embedding(model: str, folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """The settings of a model, and the environment with its key; a server answers in the provider's place."""
    from tests.support import cohere_server, openai_embedding_server

    if model == "cohere":
        with cohere_server.CohereServer() as server:
            yield {"provider": model, "base_url": server.url}, {"COHERE_API_KEY": cohere_server.KEY}
    elif model == "openai":
        with openai_embedding_server.OpenAIEmbeddingServer() as other:
            address = {"model": "openai:text-embedding-3-small", "base_url": f"{other.url}/v1"}
            yield address, {"OPENAI_API_KEY": openai_embedding_server.KEY}
    else:
        yield ({"model": model} if ":" in model else {"provider": model}), {}


def measured(folder: Path, settings: Mapping[str, Any], env: Mapping[str, str], rounds: int) -> str:
    """One line of the table."""
    retriever, store = open_handbook(folder, settings, env)
    queries = [json.loads(line)["query"] for line in (DATA / "golden.jsonl").read_text().splitlines()]
    vectors = {query: retriever.vector_store.embeddings.embed_query(query) for query in queries}
    name, top_k = retriever.settings.collection, retriever.settings.top_k
    contenders: dict[str, Callable[[str], Any]] = {
        "raw": lambda q: retriever.client.query_points(name, query=vectors[q], limit=top_k, with_payload=True),
        "langchain": lambda q: store.similarity_search_with_score_by_vector(vectors[q], k=top_k),
        "search": retriever.search,
    }
    times = interleaved(contenders, queries, rounds)
    retriever.close()
    raw, over = times["raw"], times["search"] - times["raw"]
    shown = [f"{len(vectors[queries[0]])}", *(f"{value:.3f}" for value in (*times.values(), over))]
    return f"| {' | '.join(shown)} | {over / max(0.1 * raw, 0.5):.2f} |"


def interleaved(
    contenders: Mapping[str, Callable[[str], Any]], queries: Sequence[str], rounds: int
) -> dict[str, float]:
    """Median over the queries of each one's fastest call, in ms; the first round warms up."""
    best = {(label, query): float("inf") for label in contenders for query in queries}
    for turn in range(rounds + 1):
        for query in queries:
            for label, call in contenders.items():
                start = time.perf_counter()
                call(query)
                spent = (time.perf_counter() - start) * 1000
                best[label, query] = min(best[label, query], spent) if turn else float("inf")
    return {label: statistics.median(best[label, query] for query in queries) for label in contenders}


def open_handbook(folder: Path, settings: Mapping[str, Any], env: Mapping[str, str]) -> tuple[Any, Any]:
    """The handbook indexed into an embedded store: our retriever and langchain's store on the same client."""
    from langchain_qdrant import QdrantVectorStore

    from retrievers.config import RetrieverConfig
    from retrievers.embedding.models import make_embeddings
    from retrievers.indexing.index import index_corpus
    from retrievers.indexing.pages import read_corpus
    from retrievers.retriever.qdrant import QdrantRetriever
    from retrievers.store import open_client

    config = RetrieverConfig.model_validate(
        {"store": {"path": folder / "qdrant"}, "embedding": dict(settings), "threshold": 0}
    )
    client = open_client(config.store, env, create=True)
    index_corpus(client, config, make_embeddings(config.embedding, env), read_corpus(DATA / "docs"))
    client.close()
    retriever = QdrantRetriever.open(config, env=env)
    store = QdrantVectorStore(
        retriever.client,
        config.collection,
        embedding=retriever.vector_store.embeddings,
        validate_collection_config=False,
    )
    return retriever, store


if __name__ == "__main__":
    main()
