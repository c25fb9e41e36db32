"""The handbook in every mode and fusion, and what context and merging of chunks are worth.

python benchmarks/handbook.py [--pages handbook|reference] [--limit N]

Modes: the default experiment's test split with and without MMR, top_k 10, without a threshold and behind the default
experiment's. No cross-encoder: one by the network needs a key, a local one its weights, and one that merely answers
would say nothing of any.

Context: every way of indexing on `dev`, hybrid weighted, top_k 5, no threshold; with `--pages reference` on pages that
nobody tuned it to. These are made of Python's own documentation strings: a page for each module, a section for each
public function, class and method. A query is the first sentence of a string, and the section that it belongs to is
what is to be found; the page holds the rest of the string.
"""

import argparse
import hashlib
import importlib
import inspect
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXPERIMENT = ROOT / "evals" / "config" / "presets" / "default.yaml"
HANDBOOK = ROOT / "datasets" / "physical_ai_handbook"
SIDES: Sequence[Mapping[str, str]] = (
    {"mode": "semantic"},
    {"mode": "keyword"},
    *({"mode": "hybrid", "fusion": fusion} for fusion in ("weighted", "rrf", "dbsf")),
)
ORDER = {
    "ranking/ndcg_at_10": "nDCG@10",
    "ranking/recall_at_5": "recall@5",
    "ranking/mrr_at_10": "MRR@10",
    "scope/auroc": "scope AUROC",
    "latency/total_p50_ms": "p50 ms",
}
BEHIND = {
    "ranking/ndcg_at_10": "nDCG@10",
    "ranking/evidence_recall_at_5": "evidence recall@5",
    "scope/abstention": "abstention",
    "scope/false_abstention": "false abstention",
}
CONTEXT = {
    "ranking/hit_rate_at_5": "hit rate@5",
    "candidates/ndcg_at_10": "nDCG@10",
    "candidates/recall_at_100": "recall@100",
    "cost/context_tokens": "tokens",
}
MODULES = (
    "argparse", "collections", "contextlib", "csv", "datetime", "decimal", "difflib", "email.message",
    "fractions", "functools", "http.client", "imaplib", "ipaddress", "json", "logging", "mailbox",
    "multiprocessing.pool", "optparse", "pathlib", "pickle", "pstats", "queue", "random", "sched", "shelve",
    "shutil", "smtplib", "socket", "sqlite3", "statistics", "string", "subprocess", "tarfile", "tempfile",
    "textwrap", "threading", "unittest", "urllib.request", "uuid", "weakref", "xml.dom.minidom", "zipfile",
)  # fmt: skip
QUERIES = 200


def main() -> None:
    """Measure and print three tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", choices=("handbook", "reference"), default="handbook", help="which pages")
    parser.add_argument("--limit", type=int, help="only so many queries, to try this out")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    print(f"{datetime.now(UTC):%Y-%m-%d}; in parentheses 95% intervals")
    with tempfile.TemporaryDirectory() as folder:
        if options.pages == "handbook":
            modes(Path(folder), options.limit)
            context(Path(folder), HANDBOOK / "docs", HANDBOOK / "golden.jsonl", "dev", options.limit)
        else:
            context(Path(folder), *write_reference(Path(folder)), None, options.limit)


def modes(folder: Path, limit: int | None) -> None:
    """Print what the order of each mode is worth, and what is left of it behind the threshold."""
    for title, metrics, own in (("no threshold", ORDER, {"retriever.threshold": 0}), ("default threshold", BEHIND, {})):
        table(f"{title}: mode", metrics)
        for side in SIDES:
            for rerank in ("none", "mmr"):
                chosen = {f"retriever.{name}": value for name, value in {**side, "rerank": rerank}.items()}
                settings = {"dataset.limit": limit, "retriever.store.path": folder / "modes", "retriever.top_k": 10}
                report = measured({**settings, "criteria": {}, **own, **chosen}, metrics, EXPERIMENT)
                row(" ".join((*side.values(), rerank)), report, metrics)


def context(folder: Path, pages: Path, golden: Path, split: str | None, limit: int | None) -> None:
    """Print what each way of indexing is worth."""
    table("context, merged", CONTEXT)
    for merge in (False, True):
        for way in ("none", "title", "path"):
            settings = {
                "dataset.path": golden,
                "dataset.split": split,
                "dataset.limit": limit,
                "sources.dir": pages,
                "retriever.store.path": folder / "context",
                "retriever.collection": f"{way}_{merge}",
                "index.collection": f"{way}_{merge}",
                "index.context": way,
                "index.merge_small": merge,
                "retriever.threshold": 0,
            }
            row(f"{way}, {'yes' if merge else 'no'}", measured(settings, CONTEXT), CONTEXT)


def measured(settings: Mapping[str, Any], metrics: Mapping[str, str], file: Path | None = None) -> Any:
    """Return the report of an experiment."""
    from evals import evaluate
    from evals.config.experiment import ExperimentConfig

    return evaluate(metrics=[*metrics], experiment=ExperimentConfig.load(file, settings, env={})).report


def table(title: str, metrics: Mapping[str, str]) -> None:
    """Print the head of a table."""
    print(f"\n| {title} | {' | '.join(metrics.values())} |\n|---|{'---:|' * len(metrics)}")


def row(name: str, report: Any, metrics: Mapping[str, str]) -> None:
    """Print one line of a table."""
    print(f"| {name} | {' | '.join(cell(metric, report.metrics[metric]) for metric in metrics)} |", flush=True)


def cell(metric: str, summary: Any) -> str:
    """Format a value, and its interval where it has one."""
    if summary.value is None:
        return "–"
    digits = 0 if metric.startswith("cost/") else 2 if metric.startswith("latency/") else 3
    if summary.ci_low is None or digits < 3:
        return f"{summary.value:.{digits}f}"
    return f"{summary.value:.3f} ({summary.ci_low:.3f} – {summary.ci_high:.3f})"


def write_reference(folder: Path) -> tuple[Path, Path]:
    """Write the reference pages and their golden data; return where."""
    docs = folder / "reference"
    docs.mkdir()
    cases = []
    for name in MODULES:
        sections = dict(documented(name))
        heads = {title: text.partition("\n\n") for title, text in sections.items()}
        whole = [f"## {title}\n\n{escaped(rest or first)}\n" for title, (first, _, rest) in heads.items()]
        (docs / f"{name.replace('.', '-')}.md").write_text(f"# {name}\n\n" + "\n".join(whole), encoding="utf-8")
        address = f"/docs/{name.replace('.', '-')}"
        cases += [
            {
                "id": f"{name}.{title}",
                "query": " ".join(first.split()),
                "evidence": [{"source_url": address, "heading": title}],
            }
            for title, (first, _, rest) in heads.items()
            if len(first.split()) >= 5 and len(rest.split()) >= 20
        ]
    # By their hash, so that a section more or less in another Python leaves the others chosen.
    chosen = sorted(cases, key=lambda case: hashlib.sha256(str(case["id"]).encode()).digest())[:QUERIES]
    golden = folder / "golden.jsonl"
    golden.write_text("".join(json.dumps(case) + "\n" for case in chosen), encoding="utf-8")
    return docs, golden


def documented(module: str) -> Iterator[tuple[str, str]]:
    """Return the names that a module documents itself, each with its documentation string."""
    found = importlib.import_module(module)
    for name, value in sorted(vars(found).items()):
        if name.startswith("_") or not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        if not str(getattr(value, "__module__", "")).startswith(module.partition(".")[0]):
            continue
        members = sorted(vars(value).items()) if inspect.isclass(value) else []
        for title, each in [(name, value), *((f"{name}.{key}", v) for key, v in members if not key.startswith("_"))]:
            text = inspect.getdoc(each) if callable(each) else None
            if text and text.strip():
                yield title, text.strip()


def escaped(text: str) -> str:
    """Keep lines from being read as headings, fences or MDX."""
    plain = text.translate(str.maketrans("{}<>", "()()"))
    return "\n".join(line.lstrip("#") for line in plain.split("\n"))


if __name__ == "__main__":
    main()
