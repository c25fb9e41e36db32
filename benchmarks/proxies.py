"""What foretells a judge where golden data have no labels: correlation, weight, and how much narrower intervals become.

python benchmarks/proxies.py [--draws 300]

The handbook's labels are taken away, and a judge that knows them and errs on 7% of its questions grades context
precision and recall of three retrievals.

A row for each metric and proxy: r, the correlation with the judged score over queries; λ, the mean weight over draws
of 40 judged queries; the width of the corrected interval over that of judging alone; the share of intervals that hold
the mean of all that users may ask (the queries of a draw are taken from all of them with replacement). Compared:
labels, words of the reference answer, both (labels of a random half), and chance. Bounds: held in 93%;
width at most 1.01, since a proxy that says nothing must do no harm.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from evals.cases.reading import GoldenSet
    from evals.collect.observations import Observation
    from evals.config.experiment import ExperimentConfig
    from evals.metrics.declaration import QueryMetric
    from retrievers.records import Chunk

Floats = NDArray[np.float64]
ROOT = Path(__file__).parents[1]
DEFAULT = ROOT / "evals" / "config" / "presets" / "default.yaml"
ERRS, JUDGED = 0.07, 40
RETRIEVALS = (("semantic", 5), ("hybrid", 5), ("hybrid", 10))


def main() -> None:
    """Retrieve, judge, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    print(f"{'judged metric':<34} {'proxy':<12} {'r':>5} {'λ':>5} {'width':>6} {'held':>6}")
    for mode, top_k in RETRIEVALS:
        for metric, judged, proxies in handbook(mode, top_k):
            show(f"{metric}, {mode}, top_k {top_k}", judged, proxies, options.draws)


def show(title: str, judged: Floats, proxies: Mapping[str, Floats], draws: int) -> None:
    """Print a row for each proxy."""
    for name, proxy in {**proxies, "chance": np.random.default_rng(1).random(len(judged))}.items():
        weight, width, held = drawn(judged, proxy, draws)
        correlation = float(np.corrcoef(judged, proxy)[0, 1])
        print(f"{title:<34} {name:<12} {correlation:>5.2f} {weight:>5.2f} {width:>6.2f} {held:>6.1%}")


def drawn(judged: Floats, proxy: Floats, draws: int) -> tuple[float, float, float]:
    """Mean weight, mean width over that of judging alone, and the share of intervals that hold the mean."""
    from evals.sampling.corrected import corrected
    from evals.stats.intervals import mean_intervals

    rng, total = np.random.default_rng(0), len(judged)
    weights, widths, held = [], [], 0
    for _ in range(draws):
        queries = rng.integers(total, size=total)
        sample = corrected(np.where(np.arange(total) < JUDGED, judged[queries], np.nan)[:, None], proxy[queries, None])
        (low,), (high,) = sample.interval()
        alone = mean_intervals(sample.scores, shares=True)
        weights.append(sample.weight)
        widths.append((high - low) / (alone[1][0] - alone[0][0]))
        held += low <= judged.mean() <= high
    return float(np.mean(weights)), float(np.mean(widths)), held / draws


def handbook(mode: str, top_k: int) -> Iterator[tuple[str, Floats, dict[str, Floats]]]:
    """Context precision and recall of the in-scope queries by the judge, and what foretells them."""
    from evals.cases.reading import load_golden
    from evals.config.experiment import ExperimentConfig
    from evals.judge.verdicts import average_precision
    from evals.metrics.proxies import PRECISION_PROXY, RECALL_PROXY
    from tests.support.judging import Oracle, golden_labels

    with tempfile.TemporaryDirectory() as folder:
        own = {"mode": mode, "top_k": top_k, "threshold": 0, "threshold_on": "each", "store.path": folder}
        config = ExperimentConfig.load(DEFAULT, {f"retriever.{key}": value for key, value in own.items()})
        golden = load_golden(config.dataset.model_copy(update={"split": None}))
        labelled, chunks = retrieved(config, golden)
    oracle = Oracle(golden_labels(golden.cases, chunks), false_useful=ERRS, false_useless=ERRS)
    precision, recall = [], []
    for result in labelled:
        query, texts = result.case.query, [chunk.text for chunk in result.selection.chunks]
        precision += average_precision(np.array([[oracle.verdict(query, text) for text in texts]])).tolist()
        held = [oracle.attributed(query, "\n".join(texts), claim) for claim in oracle.labels[query].claims]
        recall.append(float(np.mean(held)))
    bare = [unlabelled(result) for result in labelled]
    half = [result if number % 2 else other for number, (result, other) in enumerate(zip(labelled, bare, strict=True))]
    for name, proxy, judged in (("precision", PRECISION_PROXY, precision), ("recall", RECALL_PROXY, recall)):
        foretelling = {"labels": labelled, "words": bare, "half labelled": half}
        scores = {kind: column(proxy, results) for kind, results in foretelling.items()}
        yield name, np.array(judged), scores


def retrieved(config: "ExperimentConfig", golden: "GoldenSet") -> "tuple[list[Observation], Sequence[Chunk]]":
    """The results of the in-scope queries with their labels, and the chunks of the collection."""
    from evals.collect.pool import ground
    from evals.experiment.bench import index_if_stale
    from evals.grid.measure import alone, grid_of, retrieve
    from evals.metrics.declaration import Collaborators
    from retrievers.retriever.opened import open_retriever
    from tests.support.experiment import silent

    index_if_stale(config, {}, silent)
    with open_retriever(config.retriever, env={}) as retriever:
        collaborators = Collaborators(retrievers=[retriever], progress=silent)
        pool = retrieve(alone(config), golden, ground(golden, retriever), collaborators)
        found = grid_of(alone(config), pool).results(0).observations()
        return [result for result in found if result.case.in_scope], retriever.chunks()


def unlabelled(result: "Observation") -> "Observation":
    """The same result of a query whose labels are taken away."""
    return replace(result, case=result.case.model_copy(update={"evidence": [], "relevant_ids": {}}))


def column(proxy: "QueryMetric", results: "Sequence[Observation]") -> Floats:
    """The scores of a proxy."""
    from tests.support.observed import scored

    scores = scored(proxy, results)
    assert all(isinstance(score, float | int) for score in scores), scores
    return np.array(scores, dtype=np.float64)


if __name__ == "__main__":
    main()
