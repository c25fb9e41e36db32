"""What embedding models find on the handbook (`dev`) and on Cranfield, in every mode, with and without context.

python benchmarks/embedding_models.py --data DIR [--models PROVIDER:MODEL …] [--limit N]

DIR holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt. Threshold 0, hybrid is weighted. Context is title and
section path in the handbook, and the title in Cranfield, whose texts repeat it at their beginning: without context it
is taken off. A model given as a path is named by its folder.
"""

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "datasets" / "physical_ai_handbook"
METRICS = ("ranking/hit_rate_at_5", "candidates/ndcg_at_10", "candidates/recall_at_100")
MODES = ("semantic", "keyword", "hybrid")
DOCUMENT = re.compile(r"<doc>(.*?)</doc>", re.DOTALL)
TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL)
MEASURES = {"ndcg_cut_10": "nDCG@10", "recall_10": "recall@10", "recip_rank": "MRR"}


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of Cranfield")
    parser.add_argument(
        "--models", nargs="+", default=["wordllama:l2_supercat_256"], help="as embedding.model names them"
    )
    parser.add_argument("--limit", type=int, help="only so many queries of the handbook, to try this out")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    with tempfile.TemporaryDirectory() as folder:
        print("| model | context | mode |", " | ".join(metric.partition("/")[2] for metric in METRICS), "|")
        print("|---|---|---|" + "---:|" * len(METRICS))
        for number, model in enumerate(options.models):
            for context in ("none", "path"):
                for mode in MODES:
                    print(
                        of_handbook(Path(folder) / f"handbook{number}", model, context, mode, options.limit), flush=True
                    )
        print("\n| model | context | mode | nDCG@10 | recall@10 | MRR |\n|---|---|---|---:|---:|---:|")
        for number, model in enumerate(options.models):
            for context in ("none", "title"):
                for line in of_cranfield(Path(folder) / f"{context}{number}", options.data, model, context):
                    print(line, flush=True)


def of_handbook(folder: Path, model: str, context: str, mode: str, limit: int | None) -> str:
    """Measure one mode; the handbook is indexed where it is not yet."""
    from benchmarks.handbook import cell
    from evals import evaluate
    from evals.config.experiment import ExperimentConfig

    settings = {
        "dataset.path": HANDBOOK / "golden.jsonl",
        "dataset.split": "dev",
        "dataset.limit": limit,
        "sources.dir": HANDBOOK / "docs",
        "retriever.embedding.model": model,
        "retriever.store.path": folder,
        "retriever.collection": context,
        "index.collection": context,
        "index.context": context,
        "retriever.threshold": 0,
        "retriever.mode": mode,
    }
    report = evaluate(metrics=[*METRICS], experiment=ExperimentConfig.load(settings=settings, env={})).report
    return line(model, context, mode, [cell(metric, report.metrics[metric]) for metric in METRICS])


def of_cranfield(folder: Path, data: Path, model: str, context: str) -> list[str]:
    """Measure every mode on one way of indexing."""
    cases = read_cases(data)
    chunks = read_chunks(data / "cran.all.1400.xml")
    written = [replace(chunk, text=shown(chunk, context)) for chunk in chunks]
    config = index(folder, written, {"model": model})
    lines = []
    for mode in MODES:
        found = searched(config, {"mode": mode, "fusion": "weighted"}, [case.query for case in cases])
        measured: Mapping[str, float] = quality(cases, found)
        lines.append(line(model, context, mode, [f"{value:.3f}" for value in measured.values()]))
    return lines


def shown(chunk: Any, context: str) -> str:
    """Return a document's text, its title before it or left out."""
    title, _, text = chunk.text.partition("\n")
    rest = re.sub(rf"^{re.escape(title)}\s*\.?\s*", "", text)
    return f"{title}\n{rest}" if context == "title" else rest or title


def line(model: str, context: str, mode: str, cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {Path(model).name.partition(':')[2] or Path(model).name} | {context} | {mode} | {' | '.join(cells)} |"


# Cranfield, for other benchmarks too: 1,400 abstracts, 225 queries. One chunk a document, title and text.


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


if __name__ == "__main__":
    main()
