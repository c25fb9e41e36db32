"""What a grid costs over one cell of it, and over retrieval and ragas cell by cell: Cranfield, depth 20, 400 cells.

python benchmarks/grid.py --data DIR [--only cells,bound,loop,strings,survivors] [--rounds 9]

DIR holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt; one chunk an abstract, the packaged embeddings, an
embedded store. top_k 1:20 × threshold 0:0.95:0.05. Parts: `cells` is the grid against one cell, retrieval and scoring
(at most 1.20); `bound` the least it can be, in numpy; `loop` LangChain retrieval and ragas' id metrics cell by cell
(at least 1,200 times slower), `strings` the same with its string metrics (1,000 times): 20 cells are measured, each
top_k and each threshold once, and 400 extrapolated; `survivors` mean precision as ragas averages it and as here.
Values are held against ragas' on the cells that it measured. Imports and the index are not part of any time.
"""

import argparse
import gc
import logging
import math
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
DEPTH = 20
TOP_KS = tuple(range(1, DEPTH + 1))
THRESHOLDS = tuple(step / 20 for step in range(20))
CELLS = len(TOP_KS) * len(THRESHOLDS)
ID_METRICS = ("ragas/id_context_precision", "ragas/id_context_recall")
STRING_METRICS = ("ragas/nonllm_context_precision", "ragas/nonllm_context_recall")
RAGAS = {
    "ragas/id_context_precision": "IDBasedContextPrecision",
    "ragas/id_context_recall": "IDBasedContextRecall",
    "ragas/nonllm_context_precision": "NonLLMContextPrecisionWithReference",
    "ragas/nonllm_context_recall": "NonLLMContextRecall",
}
PARTS = ("cells", "bound", "loop", "strings", "survivors")
Times = tuple[float, float]
"""Wall and CPU seconds."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to measure")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cells", type=int, default=20, help="cells of the loop that are measured")
    options = parser.parse_args()
    wanted = options.only.split(",")
    sys.path.insert(0, str(ROOT))
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    logging.disable(logging.ERROR)  # ragas logs every empty result as an error
    with tempfile.TemporaryDirectory() as folder:
        world = World(options.data, Path(folder))
        print(f"{len(world.cases)} queries, {len(world.texts):,} chunks, {CELLS} cells; load {os.getloadavg()[0]:.1f}")
        if "cells" in wanted:
            compare_cells(world, options.rounds)
        if "bound" in wanted:
            show(
                "the bound in numpy: retrieval and 5 metrics in 400 cells", *best(lambda: bound(world), options.rounds)
            )
        if "loop" in wanted:
            compare_loop(world, ID_METRICS, options.rounds, options.cells, at_least=1_200)
        if "strings" in wanted:
            compare_loop(world, STRING_METRICS, options.rounds, options.cells, at_least=1000)
        if "survivors" in wanted:
            survivors(world)


class World:
    """Cranfield indexed twice: in our embedded store, and by langchain-qdrant in memory."""

    def __init__(self, data: Path, folder: Path) -> None:
        from benchmarks import embedding_models as cranfield
        from retrievers.embedding.models import make_embeddings
        from retrievers.indexing.chunking import point_id
        from retrievers.records import Chunk

        blocks = cranfield.DOCUMENT.findall((data / "cran.all.1400.xml").read_text(encoding="utf-8"))
        read = {cranfield.field(block, "docno"): cranfield.field(block, "text") for block in blocks}
        self.texts: Mapping[str, str] = {number: text for number, text in read.items() if text}
        chunks = [Chunk(chunk_id=n, point_id=point_id(n), text=text) for n, text in self.texts.items()]
        self.config = cranfield.index(folder / "store", chunks)
        self.cases = cranfield.read_cases(data)
        self.relevant = {case.id: case.relevant for case in self.cases}
        self.embeddings = make_embeddings(self.config.embedding, {})
        self.vectors = unit(self.embeddings.embed_documents(list(self.texts.values())))

    def opened(self) -> Any:
        """Our retriever at depth 20."""
        from benchmarks import embedding_models as cranfield

        return cranfield.opened(self.config, {"candidates": DEPTH, "top_k": DEPTH})

    def langchain(self) -> Any:
        """langchain-qdrant's store over the same texts and embeddings."""
        from langchain_qdrant import QdrantVectorStore

        metadata = [{"chunk_id": number} for number in self.texts]
        return QdrantVectorStore.from_texts(list(self.texts.values()), self.embeddings, metadata, location=":memory:")


def grid_of(world: World, retriever: Any, metrics: Sequence[str], top_ks: Sequence[int], thresholds: Any) -> Any:
    """Retrieve once and score the cells: what `python -m evals.run` does with a sweep, without a choice."""
    from evals.cases.relevance import Relevance
    from evals.collect.pool import Pool
    from evals.config.experiment import SweepConfig
    from evals.grid import measure
    from evals.grid.axes import plan
    from evals.grid.cells import score_cells
    from evals.metrics import choose
    from evals.metrics.declaration import Context, QueryMetric

    planned = plan(
        retriever.settings, SweepConfig.model_validate({"top_k": list(top_ks), "threshold": list(thresholds)})
    )
    graded = [world.relevant[case.id] for case in world.cases]
    relevance = [Relevance(grades=grades, items=tuple(frozenset([key]) for key in grades)) for grades in graded]
    table = retriever.candidates([case.query for case in world.cases])
    pool = Pool(
        cases=tuple(world.cases), tables=(table,), relevance=(tuple(relevance),), texts=world.texts, notes=((),)
    )
    grid = measure.grid_of(planned, pool)
    context = Context(required=(), sources=None, relevant_texts=world.texts, seed=0)
    by_query = {n: metric for n, metric in choose(metrics, (1,)).items() if isinstance(metric, QueryMetric)}
    return replace(grid, metrics=score_cells(grid, by_query, context))


def compare_cells(world: World, rounds: int) -> None:
    """400 cells against one, interleaved: with metrics by ids and ranks, and with all."""
    for patterns in (("ranking/*", "ragas/id_*", "scope/*"), ("*",)):
        _compare_cells(world, rounds, patterns)


def _compare_cells(world: World, rounds: int, patterns: Sequence[str]) -> None:
    with world.opened() as retriever:
        work: Mapping[str, Callable[[], Any]] = {
            "one cell": lambda: grid_of(world, retriever, patterns, [DEPTH], [0.0]),
            f"{CELLS} cells": lambda: grid_of(world, retriever, patterns, TOP_KS, THRESHOLDS),
        }
        times: dict[str, list[Times]] = {name: [] for name in work}
        for turn in range(rounds + 1):
            for name, call in work.items():
                taken = timed(call)
                if turn:  # the first round warms up
                    times[name].append(taken)
        grid = work[f"{CELLS} cells"]()
    print(f"\n{len(grid.metrics)} metrics ({', '.join(patterns)}), retrieval and scoring, median of {rounds}")
    for name, measured in times.items():
        show(name, *middle(measured))
    ratios = [many[1] / one[1] for one, many in zip(*times.values(), strict=True)]
    (one_wall, one_cpu), (wall, cpu) = (middle(measured) for measured in times.values())
    print(f"grid over one cell: wall {wall / one_wall:.3f}, CPU {cpu / one_cpu:.3f} (rounds {min(ratios):.3f} to "
          f"{max(ratios):.3f}), at most 1.20")  # fmt: skip


def compare_loop(world: World, metrics: Sequence[str], rounds: int, cells: int, *, at_least: int) -> None:
    """The whole grid against LangChain and ragas on some of its cells."""
    with world.opened() as retriever:
        grid = grid_of(world, retriever, metrics, TOP_KS, THRESHOLDS)

        mine = best(lambda: grid_of(world, retriever, metrics, TOP_KS, THRESHOLDS), rounds)
    rng = random.Random(0)
    chosen = list(zip(rng.sample(TOP_KS, len(TOP_KS)), rng.sample(THRESHOLDS, len(THRESHOLDS)), strict=True))[:cells]
    store = world.langchain()
    ragas_means(world, retrieved_by(store, world, 1, 0.0), metrics)  # imports, and what it reads once
    scores: list[Mapping[str, list[float]]] = []
    taken = timed(
        lambda: scores.extend(ragas_means(world, retrieved_by(store, world, *cell), metrics) for cell in chosen)
    )
    loop = (taken[0] * CELLS / len(chosen), taken[1] * CELLS / len(chosen))
    print(f"\n{', '.join(metrics)}")
    show(f"LangChain and ragas, {len(chosen)} cells", *taken)
    show(f"the same, {CELLS} cells, extrapolated", *loop)
    show(f"the grid, {CELLS} cells, fastest of {rounds}", *mine)
    print(f"times faster: wall {loop[0] / mine[0]:,.0f}, CPU {loop[1] / mine[1]:,.0f}, at least {at_least:,}")
    print(f"largest difference of a score from ragas': {difference(world, grid, chosen, scores):.1e}")


def retrieved_by(store: Any, world: World, top_k: int, threshold: float) -> list[list[tuple[str, str]]]:
    """Ids and texts for every query, one search a query."""
    found = []
    for case in world.cases:
        hits = store.similarity_search_with_score(case.query, k=top_k, score_threshold=threshold)
        found.append([(document.metadata["chunk_id"], document.page_content) for document, _ in hits])
    return found


def ragas_means(world: World, found: Sequence[Any], metrics: Sequence[str]) -> Mapping[str, list[float]]:
    """`ragas.evaluate` on one cell; its score of every query."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas import EvaluationDataset, evaluate
        from ragas import metrics as classes
        from ragas.dataset_schema import SingleTurnSample

        samples = [
            SingleTurnSample(
                retrieved_context_ids=[number for number, _ in hits],
                retrieved_contexts=[text for _, text in hits],
                reference_context_ids=sorted(world.relevant[case.id]),
                reference_contexts=[world.texts.get(n, "") for n in sorted(world.relevant[case.id])],
            )
            for case, hits in zip(world.cases, found, strict=True)
        ]
        made = {name: getattr(classes, RAGAS[name])() for name in metrics}
        result = evaluate(EvaluationDataset(samples=samples), metrics=list(made.values()), show_progress=False)
    return {name: [row[metric.name] for row in result.scores] for name, metric in made.items()}


def difference(
    world: World, grid: Any, chosen: Sequence[tuple[int, float]], scores: Sequence[Mapping[str, list[float]]]
) -> float:
    """The largest difference of any query's score in the measured cells; ragas' NaN for nothing is our 0."""
    from evals.metrics import METRICS
    from evals.metrics.declaration import Context, QueryMetric

    largest = 0.0
    for (top_k, threshold), known in zip(chosen, scores, strict=True):
        index = THRESHOLDS.index(threshold) * len(TOP_KS) + TOP_KS.index(top_k)
        for name, values in known.items():
            metric, context = METRICS[name], Context(required=(), sources=None, relevant_texts=world.texts, seed=0)
            assert isinstance(metric, QueryMetric)
            ours = grid.matrix(metric, context)[:, index]
            gaps = np.abs(ours - np.nan_to_num(np.asarray(values)))
            largest = max(largest, float(np.nanmax(gaps)))
    return largest


def bound(world: World) -> Any:
    """Embed, one matrix product, five metrics on every prefix, every cell a lookup: what any program must do."""
    cosines = unit([world.embeddings.embed_query(case.query) for case in world.cases]) @ world.vectors.T
    order = np.argsort(-cosines, axis=1)[:, :DEPTH]
    scores = np.take_along_axis(cosines, order, axis=1)
    known = [world.relevant[case.id] for case in world.cases]
    ids = list(world.texts)
    found = np.asarray([[ids[place] in grades for place in row] for grades, row in zip(known, order, strict=True)])
    total = np.asarray([len(grades) for grades in known])[:, None]
    places = np.arange(1, DEPTH + 1)
    counted = found.cumsum(axis=1)
    first = np.where(counted > 0, 1 / (found.argmax(axis=1) + 1)[:, None], 0)
    gained = (found / np.log2(places + 1)).cumsum(axis=1)
    ideal = np.cumsum(1 / np.log2(places + 1))[np.minimum(total, DEPTH) - 1]
    every = [
        counted / places,
        counted / total,
        (found * counted / places).cumsum(axis=1) / total,
        first,
        gained / ideal,
    ]
    padded = [np.hstack([np.zeros((len(known), 1)), metric]) for metric in every]
    reach = (scores[:, :, None] >= np.asarray(THRESHOLDS)).sum(axis=1)
    lengths = np.minimum(reach[:, :, None], np.asarray(TOP_KS)).reshape(len(known), -1)
    return [np.take_along_axis(metric, lengths, axis=1).mean(axis=0) for metric in padded]


def unit(vectors: Sequence[Sequence[float]]) -> Any:
    """The vectors at length 1."""
    made = np.asarray(vectors)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def survivors(world: World) -> None:
    """Mean id precision by threshold at top_k 10: ragas leaves empty results out, here they count."""
    with world.opened() as retriever:
        grid = grid_of(world, retriever, ID_METRICS, [10], THRESHOLDS)
    print(f"\ntop_k 10 {'':<8}queries that    mean precision    mean precision    mean recall\n"
          "threshold        got nothing    by ragas          counting them     counting them")  # fmt: skip
    precision, recall = (grid.metrics[name].mean for name in ID_METRICS)
    for place, threshold in enumerate(THRESHOLDS):
        selections = [
            [(c.chunk.chunk_id, c.chunk.text) for c in o.selection] for o in grid.results(place).observations()
        ]
        values = ragas_means(world, selections, ID_METRICS[:1])[ID_METRICS[0]]
        known = [value for value in values if not math.isnan(value)]
        shown = f"{statistics.fmean(known):.3f}" if known else "none"
        print(
            f"{threshold:<9.2f}{len(values) - len(known):>19}{shown:>18}{precision[place]:>18.3f}{recall[place]:>15.3f}"
        )


def timed(work: Callable[[], Any]) -> Times:
    """Wall and CPU seconds of a call, begun without garbage of earlier ones."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def best(work: Callable[[], Any], rounds: int) -> Times:
    """The fastest of several calls, after one that warms up."""
    work()
    return min(timed(work) for _ in range(rounds))


def middle(taken: Sequence[Times]) -> Times:
    """Medians."""
    return statistics.median(wall for wall, _ in taken), statistics.median(cpu for _, cpu in taken)


def show(name: str, wall: float, cpu: float) -> None:
    """One line of the table."""
    print(f"{name:<58} {wall:>10.3f} s wall {cpu:>10.3f} s CPU")


if __name__ == "__main__":
    main()
