"""Cranfield for the other benchmarks: 1,400 abstracts, 225 queries.

A folder holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt. One chunk a document, title and text.
"""

import re
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DOCUMENT = re.compile(r"<doc>(.*?)</doc>", re.DOTALL)
TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL)
MEASURES = {"ndcg_cut_10": "nDCG@10", "recall_10": "recall@10", "recip_rank": "MRR"}


def read_chunks(file: Path) -> list[Any]:
    """One chunk a document; one without words, as two of Cranfield are, has nothing to be found by and is left out."""
    from retrievers.indexing.chunking import point_id
    from retrievers.records import Chunk

    chunks = []
    for block in DOCUMENT.findall(file.read_text(encoding="utf-8")):
        number, title, text = (field(block, name) for name in ("docno", "title", "text"))
        if title or text:
            chunks.append(Chunk(chunk_id=number, point_id=point_id(number), text=f"{title}\n{text}", title=title))
    return chunks


def read_cases(data: Path) -> list[Any]:
    """The queries with their judgements, which name a query by its place among the topics."""
    from evals.cases.case import Case

    judged: dict[int, dict[str, int]] = {}
    for line in (data / "cranqrel.trec.txt").read_text(encoding="utf-8").splitlines():
        query, _, document, grade = line.split()
        judged.setdefault(int(query), {})[document] = int(grade)
    topics = TOPIC.findall((data / "cran.qry.xml").read_text(encoding="utf-8"))
    return [
        Case(id=str(place), query=field(topic, "title"), relevant_ids=judged[place], split="test")
        for place, topic in enumerate(topics, 1)
        if max(judged.get(place, {}).values(), default=0) > 0
    ]


def field(block: str, name: str) -> str:
    """What stands between two tags; the file is not well-formed XML."""
    found = re.search(f"<{name}>(.*?)</{name}>", block, re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def index(path: Path, chunks: Sequence[Any], embedding: Mapping[str, Any] | None = None) -> Any:
    """Write the chunks into an embedded store, as indexing does; the settings to open it with."""
    from retrievers.config import RetrieverConfig, StoreConfig
    from retrievers.embedding.bm25 import Bm25Encoder
    from retrievers.embedding.models import make_embeddings
    from retrievers.indexing.index import write
    from retrievers.store.opening import open_client

    store = StoreConfig.model_validate({"path": path})
    settings = {"store": store, "collection": "cranfield", "threshold": 0, "embedding": embedding or {}}
    config = RetrieverConfig.model_validate(settings)
    texts = list(dict.fromkeys(chunk.text for chunk in chunks))
    vectors = dict(zip(texts, make_embeddings(config.embedding, {}).embed_documents(texts), strict=True))
    counter = Bm25Encoder(config.keyword.language)
    average = round(statistics.mean(counter.length(chunk.text) for chunk in chunks), 3)
    manifest = {
        "embedding": {**config.embedding.identity, "dimension": len(vectors[texts[0]])},
        "bm25": {"language": config.keyword.language, "average_length": average},
    }
    client = open_client(config.store, {}, create=True)
    start = time.perf_counter()
    write(client, config, chunks, {text: np.asarray(v, dtype=np.float32) for text, v in vectors.items()}, manifest)
    client.close()
    seconds = time.perf_counter() - start
    print(f"{len(chunks):,} documents of {average:g} terms on average, written in {seconds:.1f} s")
    return config


def searched(config: Any, settings: Mapping[str, Any], queries: Sequence[str]) -> list[list[str]]:
    """The ids that each query finds, the best first."""
    with opened(config, settings) as retriever:
        found = retriever.candidates(queries, use_cache=False)
    return [[c.chunk.chunk_id for c in candidates] for candidates in found]


def quality(cases: Sequence[Any], found: Sequence[Sequence[str]]) -> Mapping[str, float]:
    """Mean measures over all queries."""
    import pytrec_eval

    run = {
        case.id: {name: 1.0 / rank for rank, name in enumerate(ids, start=1)}
        for case, ids in zip(cases, found, strict=True)
    }
    relevant = {case.id: dict.fromkeys(case.relevant, 1) for case in cases}
    measured = pytrec_eval.RelevanceEvaluator(relevant, {"ndcg_cut.10", "recall.10", "recip_rank"}).evaluate(run)
    return {name: statistics.mean(measured.get(case.id, {}).get(name, 0.0) for case in cases) for name in MEASURES}


def opened(config: Any, settings: Mapping[str, Any]) -> Any:
    """The retriever with these settings."""
    from retrievers.config import RetrieverConfig
    from retrievers.retriever.qdrant import QdrantRetriever

    return QdrantRetriever.open(RetrieverConfig.model_validate({**config.model_dump(), **settings}), env={})
