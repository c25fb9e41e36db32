"""The default handbook's test split in every mode and fusion, with and without MMR: quality, scope, time.

python benchmarks/handbook.py [--repeats 2] [--limit N] > docs/handbook_results.md

Two passes of the evaluation itself, one with the threshold at 0 (what the order is worth) and one with the default
experiment's. Everything else is the default experiment, but for a top_k of 10. No cross-encoder: one by the network
needs a key, a local one its weights, and one that merely answers would say nothing of any.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXPERIMENT = ROOT / "evals" / "experiments" / "default.yaml"
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
    "latency/total_p50_ms": "p50 ms",
}
THRESHOLD = {
    "ranking/ndcg_at_10": "nDCG@10",
    "ranking/evidence_recall_at_5": "evidence recall@5",
    "scope/abstention": "abstention",
    "scope/false_abstention": "false abstention",
}


def main() -> None:
    """Measure and print a page of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2, help="how often every query is timed (default: 2)")
    parser.add_argument("--limit", type=int, help="only so many queries, to try this out")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from evals.quiet import silence

    silence(hub=False)
    with tempfile.TemporaryDirectory() as folder:
        always = {
            "dataset.limit": options.limit,
            "retriever.store.path": str(Path(folder) / "store"),
            "retriever.top_k": 10,
            "latency.repeats": options.repeats,
            "latency.concurrency": [1],
            "criteria": {},
        }
        order = [measured({**always, "retriever.threshold": 0}, contender, ORDER) for contender in CONTENDERS]
        behind = [measured(always, contender, THRESHOLD) for contender in CONTENDERS]
    print(page(order, behind))


def measured(always: Mapping[str, Any], contender: Mapping[str, str], metrics: Mapping[str, str]) -> Any:
    """The result of the default experiment with these settings."""
    from evals.config import ExperimentConfig
    from evals.dataset.load import load_golden
    from evals.facts import gather
    from evals.pipeline import evaluate, ground
    from evals.prepare import index_if_stale
    from retrievers.retriever import QdrantRetriever
    from retrievers.settings import Layer, build, file_layer, nest

    own = {f"retriever.{name}": value for name, value in contender.items()}
    layer = Layer(label="this benchmark", values=nest({**always, **own, "metrics": list(metrics)}))
    config = build(ExperimentConfig, [file_layer(EXPERIMENT, ExperimentConfig), layer])
    golden = load_golden(config.dataset)
    index_if_stale(config, {}, silent)
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        facts = gather(config, golden, retriever)
        return evaluate(config, golden, ground(golden, retriever), retriever, None, facts, silent)


def silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


def page(order: Sequence[Any], behind: Sequence[Any]) -> str:
    """Both tables, and what a reader must know of them."""
    facts, retriever = order[0].facts, behind[0].config["retriever"]
    used = ("python", "qdrant-client", "langchain-qdrant", "wordllama", "ragas")
    versions = ", ".join(f"{name} {facts['versions'][name]}" for name in used)
    return f"""# The handbook in every mode

Measured on {datetime.now(UTC):%Y-%m-%d} by `python benchmarks/handbook.py > docs/handbook_results.md` ({versions}).

The default experiment's `test` split: {facts["cases"]} queries, {facts["in_scope"]} in scope and \
{facts["out_of_scope"]} out of scope; {facts["collection"]["points"]} chunks in an
embedded store, embedded by `{facts["embedding"]}`; candidate depth {retriever["candidates"]}, \
top_k {retriever["top_k"]}. In parentheses 95% intervals over the queries;
where two overlap widely, the two have not been told apart. `rerank: rrf` is hybrid with rrf fusion, the same line. \
MMR weighs the cosine to the query, so that
behind it the modes differ in their candidates alone. A cross-encoder is left out: it needs a key, or a model's weights.

## What the order is worth

Threshold 0. Scope AUROC and the highest out-of-scope score read the best cosine among the candidates, which no \
reranking moves. The time is that of one search with
its embedding, on one machine; it tells the lines apart and no more.

{table(order, ORDER)}

## Behind the default threshold

Threshold {retriever["threshold"]:g}, on the cosine in every mode. An in-scope query that gets nothing back scores 0.

{table(behind, THRESHOLD)}"""


def table(results: Sequence[Any], metrics: Mapping[str, str]) -> str:
    """One line a contender."""
    rows = [["mode", "fusion", "rerank", *metrics.values()], ["---"] * 3 + ["---:"] * len(metrics)]
    for result, contender in zip(results, CONTENDERS, strict=True):
        summaries = {summary.metric: summary for summary in result.summaries}
        settings = [contender["mode"], contender.get("fusion", "–"), contender["rerank"]]
        rows.append([*settings, *(cell(summaries[name]) for name in metrics)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(summary: Any) -> str:
    """A value and its interval, where it has one."""
    if summary.value is None:
        return "–"
    digits = 2 if summary.metric.startswith("latency/") else 3
    value = f"{summary.value:.{digits}f}"
    if summary.ci_low is None or summary.ci_high is None:
        return value
    return f"{value} ({summary.ci_low:.{digits}f} – {summary.ci_high:.{digits}f})"


if __name__ == "__main__":
    main()
