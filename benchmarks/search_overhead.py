"""What `QdrantRetriever.search` costs over embedding the query and asking the raw client, interleaved in one run.

python benchmarks/search_overhead.py [--rounds 20]

Bound: 10% of the raw call or 0.5 ms, whichever is more. Also shown: langchain-qdrant's own search on the same store.
A figure is the median over the queries of the fastest call of each, so that other work on the machine counts little.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "datasets" / "physical_ai_handbook"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        retriever, store = open_handbook(Path(folder))
        queries = [json.loads(line)["query"] for line in (DATA / "golden.jsonl").read_text().splitlines()]
        name, top_k = retriever.settings.collection, retriever.settings.top_k
        contenders: dict[str, Callable[[str], Any]] = {
            "embedding + raw client": lambda q: retriever.client.query_points(
                name, query=retriever.embeddings.embed_query(q), limit=top_k, with_payload=True
            ),
            "langchain-qdrant": lambda q: store.similarity_search_with_score(q, k=top_k),
            "QdrantRetriever.search": lambda q: retriever.search(q, use_cache=False),
        }
        times: dict[str, dict[str, float]] = {label: {} for label in contenders}
        for turn in range(rounds + 1):
            for query in queries:
                for label, call in contenders.items():
                    start = time.perf_counter()
                    call(query)
                    if turn:  # the first round warms up
                        took = (time.perf_counter() - start) * 1000
                        times[label][query] = min(took, times[label].get(query, took))
        retriever.close()
    report(times)


def open_handbook(folder: Path) -> tuple[Any, Any]:
    """The handbook indexed into an embedded store: our retriever and langchain's store on the same client."""
    from langchain_qdrant import QdrantVectorStore

    from retrievers.config import RetrieverConfig, StoreConfig
    from retrievers.embedding.models import make_embeddings
    from retrievers.indexing.corpus import read_corpus
    from retrievers.indexing.index import index_corpus
    from retrievers.retriever.qdrant import QdrantRetriever
    from retrievers.store import open_client

    config = RetrieverConfig(store=StoreConfig(path=folder / "qdrant"))
    client = open_client(config.store, {}, create=True)
    index_corpus(client, config, make_embeddings(config.embedding, {}), read_corpus(DATA / "docs"))
    client.close()
    retriever = QdrantRetriever.open(config, env={})
    store = QdrantVectorStore(
        retriever.client, config.collection, embedding=retriever.embeddings, validate_collection_config=False
    )
    return retriever, store


def report(times: dict[str, dict[str, float]]) -> None:
    """Medians over the queries, and the overhead over the raw call as a ratio and in milliseconds."""
    medians = {label: statistics.median(values.values()) for label, values in times.items()}
    raw = medians["embedding + raw client"]
    for label, median in medians.items():
        print(f"{label:<24} {median:.3f} ms  {median / raw:.2f} of raw  {median - raw:+.3f} ms")
    allowed = max(0.1 * raw, 0.5)
    over = medians["QdrantRetriever.search"] - raw
    print(f"overhead {over:.3f} ms: {over / allowed:.2f} of the {allowed:.2f} ms allowed")


if __name__ == "__main__":
    main()
