"""nDCG@10, recall@10, MRR and MAP of 10,000 queries × 100 results, against pytrec_eval in the same run.

python benchmarks/metrics.py [--rounds 9] [--queries 10000]

Judgements are mappings, query to chunk to grade. Results begin for both as mappings, query to chunk to score (what
pytrec_eval reads), or for both as ranked lists (what a retriever gives); turning them into what is read counts, and
there is a value for each query in the end. Ten of a pool of 1,000 chunks are relevant to a query. Times are seconds of
CPU. Bound: 0.6 of pytrec_eval's.
"""

import argparse
import gc
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
DEPTH, POOL, RELEVANT = 100, 1_000, 10
NAMES = {"ndcg_cut_10": "ndcg", "recall_10": "recall", "recip_rank": "mrr", "map": "map"}
Grades = Mapping[str, Mapping[str, int]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--queries", type=int, default=10_000)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    grades, run = collection(options.queries)
    ranked = {query: sorted(scores, key=lambda chunk: -scores[chunk]) for query, scores in run.items()}
    contenders: Mapping[str, Callable[[], Mapping[str, Any]]] = {
        "pytrec_eval, from scores": lambda: by_pytrec_eval(grades, run),
        "ours, from scores": lambda: ours(judged_by_score(grades, run)),
        "pytrec_eval, from ranked lists": lambda: by_pytrec_eval(grades, scored(ranked)),
        "ours, from ranked lists": lambda: ours(judged_as_ranked(grades, ranked)),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(options.rounds + 1):
        for name, call in contenders.items():
            gc.collect()
            start = time.process_time()
            call()
            if turn:  # the first round warms up
                times[name].append(time.process_time() - start)
    report(times, {name: call() for name, call in contenders.items()})


def collection(queries: int) -> tuple[Grades, Mapping[str, Mapping[str, float]]]:
    """Random judgements and a random run."""
    rng = random.Random(0)
    pool = [f"chunk-{number}" for number in range(POOL)]
    grades = {f"q{n}": {chunk: rng.randint(1, 3) for chunk in rng.sample(pool, RELEVANT)} for n in range(queries)}
    run = {f"q{n}": {chunk: rng.random() for chunk in rng.sample(pool, DEPTH)} for n in range(queries)}
    return grades, run


def by_pytrec_eval(grades: Grades, run: Mapping[str, Mapping[str, float]]) -> Mapping[str, Any]:
    """Its values by query."""
    import pytrec_eval

    measures = {"ndcg_cut.10", "recall.10", "recip_rank", "map"}
    found = pytrec_eval.RelevanceEvaluator(grades, measures).evaluate(run)
    return {ours: [values[theirs] for values in found.values()] for theirs, ours in NAMES.items()}


def scored(ranked: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, float]]:
    """Scores that fall with the rank."""
    return {query: {chunk: -float(rank) for rank, chunk in enumerate(ids)} for query, ids in ranked.items()}


def judged_as_ranked(grades: Grades, ranked: Mapping[str, Sequence[str]]) -> Any:
    """Ranked lists as the arrays that the metrics read."""
    from evals.metrics.arrays import RelevanceArrays

    known = [grades[query] for query in ranked]
    gains = np.zeros((len(ranked), max(map(len, ranked.values()), default=0)), dtype=np.int32)
    ideal = np.zeros((len(ranked), max(10, *map(len, known))), dtype=np.int32)
    for row, (ids, of_query) in enumerate(zip(ranked.values(), known, strict=True)):
        gains[row, : len(ids)] = [of_query.get(chunk_id, 0) for chunk_id in ids]
        ideal[row, : len(of_query)] = sorted(of_query.values(), reverse=True)
    relevant = np.asarray([len(of_query) for of_query in known], dtype=np.int64)
    return RelevanceArrays(gains=gains, relevant=relevant, ideal=ideal)


def judged_by_score(grades: Grades, run: Mapping[str, Mapping[str, float]]) -> Any:
    """The same of mappings, put into order by falling score."""
    known = judged_as_ranked(grades, {query: list(scores) for query, scores in run.items()})
    values = np.full(known.gains.shape, -np.inf)
    for row, scores in enumerate(run.values()):
        values[row, : len(scores)] = list(scores.values())
    return replace(known, gains=np.take_along_axis(known.gains, np.argsort(-values, axis=1), axis=1))


def ours(judged: Any) -> Mapping[str, Any]:
    """The metrics of the grid, of every whole list."""
    from evals.metrics import prefixes

    everything = judged.gains.shape[1]
    found = {
        "ndcg": prefixes.ndcg(judged, 10),
        "recall": prefixes.recall(judged, 10),
        "mrr": prefixes.reciprocal_rank(judged, everything),
        "map": prefixes.average_precision(judged, everything),
    }
    return {name: values[:, -1] for name, values in found.items()}


def report(times: Mapping[str, Sequence[float]], values: Mapping[str, Mapping[str, Any]]) -> None:
    """Fastest times, ratios, and by how much values differ."""
    for name, taken in times.items():
        theirs = "pytrec_eval," + name.partition(",")[2]
        gaps = [
            np.abs(np.asarray(values[name][metric]) - np.asarray(values[theirs][metric])).max()
            for metric in NAMES.values()
        ]
        ratio = min(taken) / min(times[theirs])
        print(f"{name:<32} {min(taken):.3f} s CPU   {ratio:.2f} of pytrec_eval's   largest difference {max(gaps):.1e}")
    print("bound: 0.60 of pytrec_eval's")


if __name__ == "__main__":
    main()
