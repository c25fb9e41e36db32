"""The default handbook's test split in every mode and fusion, with and without MMR: quality, scope, time.

python benchmarks/handbook.py [--repeats 2] [--limit N] > benchmarks/results/handbook.md

Two passes of the evaluation itself, one with the threshold at 0 (what the order is worth) and one with the default
experiment's. Everything else is the default experiment, but for a top_k of 10. Times are of single searches, the lines
in turn for every query, so that whatever else the machine does weighs on all of them alike. No cross-encoder: one by
the network needs a key, a local one its weights, and one that merely answers would say nothing of any.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXPERIMENT = ROOT / "evals" / "config" / "presets" / "default.yaml"
SIDES: Sequence[Mapping[str, str]] = (
    {"mode": "semantic"},
    {"mode": "keyword"},
    *({"mode": "hybrid", "fusion": fusion} for fusion in ("weighted", "rrf", "dbsf")),
)
CONTENDERS = [{**side, "rerank": rerank} for side in SIDES for rerank in ("none", "mmr")]
ORDER = {
    "ranking/ndcg_at_10": "nDCG@10",
    "ranking/recall_at_5": "recall@5",
    "ranking/mrr_at_10": "MRR@10",
    "ranking/evidence_recall_at_5": "evidence recall@5",
    "scope/auroc": "scope AUROC",
    "scope/max_out_of_scope_score": "highest out of scope",
}
THRESHOLD = {
    "ranking/ndcg_at_10": "nDCG@10",
    "ranking/evidence_recall_at_5": "evidence recall@5",
    "scope/abstention": "abstention",
    "scope/false_abstention": "false abstention",
}
TIME = {"latency/total_p50_ms": "p50 ms"}


def main() -> None:
    """Measure and print a page of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2, help="how often every query is timed (default: 2)")
    parser.add_argument("--limit", type=int, help="only so many queries, to try this out")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    with tempfile.TemporaryDirectory() as folder:
        always = {
            "dataset.limit": options.limit,
            "retriever.store.path": str(Path(folder) / "store"),
            "retriever.top_k": 10,
            "criteria": {},
        }
        order = [experiment({**always, "retriever.threshold": 0}, one, ORDER) for one in CONTENDERS]
        behind = [experiment(always, one, THRESHOLD) for one in CONTENDERS]
        ranked, thresholded = [[measured(config) for config in configs] for configs in (order, behind)]
        times = timed(order, options.repeats)
    print(page(ranked, times, thresholded))


def experiment(always: Mapping[str, Any], contender: Mapping[str, str], metrics: Mapping[str, str]) -> Any:
    """The default experiment with these settings."""
    from evals.config.experiment import ExperimentConfig

    own = {f"retriever.{name}": value for name, value in contender.items()}
    return ExperimentConfig.load(EXPERIMENT, {**always, **own, "metrics": list(metrics)})


def measured(config: Any) -> Any:
    """The report of an experiment."""
    from evals.cases.reading import load_golden
    from evals.collect.pool import ground
    from evals.experiment.bench import index_if_stale
    from evals.experiment.facts import gather
    from evals.grid.measure import alone, measure_pool, retrieve
    from evals.metrics.collaborators import Collaborators
    from evals.report.build import build_report
    from retrievers.retriever.qdrant import QdrantRetriever

    golden = load_golden(config.dataset)
    index_if_stale(config, {}, silent)
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        collaborators = Collaborators(retrievers=[retriever], progress=silent)
        facts = gather(config, golden, collaborators)
        pool = retrieve(alone(config), golden, ground(golden, retriever), collaborators)
        return build_report(measure_pool(config, pool, collaborators), facts)


def timed(configs: Sequence[Any], repeats: int) -> list[Any]:
    """The median of single searches by every experiment's retriever, in ms; a first round warms up."""
    from evals.cases.reading import load_golden
    from evals.collect.observations import Summary
    from evals.stats import intervals as stats
    from retrievers.retriever.qdrant import QdrantRetriever

    times: list[list[float]] = [[] for _ in configs]
    with ExitStack() as opened:
        retrievers = [opened.enter_context(QdrantRetriever.open(config.retriever, env={})) for config in configs]
        for turn in range(repeats + 1):
            for case in load_golden(configs[0].dataset).cases:
                for retriever, spent in zip(retrievers, times, strict=True):
                    session = retriever.search(case.query, use_cache=False)
                    if turn:
                        spent.append(session.timings.total_ms)
    medians = []
    for spent in times:
        value, found = stats.percentile(spent, 0.5), stats.percentile_interval(spent, 0.5)
        name = "latency/total_p50_ms"
        medians.append(Summary(metric=name, value=value, ci_low=found.low, ci_high=found.high, n=len(spent)))
    return medians


def silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


def page(ranked: Sequence[Any], times: Sequence[Any], thresholded: Sequence[Any]) -> str:
    """Both tables, and what a reader must know of them."""
    facts, retriever = ranked[0].facts, thresholded[0].config["retriever"]
    index = thresholded[0].config["index"]
    used = ("python", "qdrant-client", "langchain-qdrant", "wordllama", "ragas")
    versions = ", ".join(f"{name} {facts.versions[name]}" for name in used)
    order = [{**report.metrics, time.metric: time} for report, time in zip(ranked, times, strict=True)]
    return f"""# The handbook in every mode

Measured on {datetime.now(UTC):%Y-%m-%d} by `python benchmarks/handbook.py > benchmarks/results/handbook.md` \
({versions}).

The default experiment's `test` split: {facts.cases} queries, {facts.in_scope} in scope and \
{facts.out_of_scope} out of scope; {facts.collection.points} chunks (`index.context: {index["context"]}`, \
`index.merge_small: {str(index["merge_small"]).lower()}`) in an
embedded store, embedded by `{facts.embedding}`; candidate depth {retriever["candidates"]}, \
top_k {retriever["top_k"]}. In parentheses 95% intervals over the queries;
where two overlap widely, the two have not been told apart. \
MMR weighs the cosine to the query, so that
behind it the modes differ in their candidates alone. A cross-encoder is left out: it needs a key, or a model's weights.

## What the order is worth

Threshold 0. Scope AUROC and the highest out-of-scope score read the best cosine among the candidates, which no \
reranking moves. The time is that of one search with
its embedding, the lines in turn for every query, on {os.cpu_count()} cores at a load of {os.getloadavg()[0]:.1f} \
(idle: 1, this benchmark itself).

{table(order, {**ORDER, **TIME})}

## Behind the default threshold

Threshold {retriever["threshold"]:g} (`threshold_on: {retriever["threshold_on"]}`), on the cosine in every mode. An \
in-scope query that gets nothing back scores 0.

{table([report.metrics for report in thresholded], THRESHOLD)}"""


def table(lines: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]) -> str:
    """One line a contender."""
    rows = [["mode", "fusion", "rerank", *metrics.values()], ["---"] * 3 + ["---:"] * len(metrics)]
    for measured, contender in zip(lines, CONTENDERS, strict=True):
        settings = [contender["mode"], contender.get("fusion", "–"), contender["rerank"]]
        rows.append([*settings, *(cell(name, measured[name]) for name in metrics)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(metric: str, summary: Any) -> str:
    """A value and its interval, where it has one."""
    if summary.value is None:
        return "–"
    digits = 2 if metric.startswith("latency/") else 3
    value = f"{summary.value:.{digits}f}"
    if summary.ci_low is None or summary.ci_high is None:
        return value
    return f"{value} ({summary.ci_low:.{digits}f} – {summary.ci_high:.{digits}f})"


if __name__ == "__main__":
    main()
