"""Context and merging of chunks on the handbook's `dev`, and on reference pages that nobody tuned them to.

python benchmarks/context.py [--pages handbook|reference] [--limit N]

Every mode on every way of indexing, threshold 0. The reference pages are made of Python's own documentation strings: a
page for each module, a section for each public function, class and method. A query is the first sentence of a string,
and the section that it belongs to is what is to be found; the page holds the rest of the string.
"""

import argparse
import hashlib
import importlib
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "datasets" / "physical_ai_handbook"
MODULES = (
    "argparse", "collections", "contextlib", "csv", "datetime", "decimal", "difflib", "email.message",
    "fractions", "functools", "http.client", "imaplib", "ipaddress", "json", "logging", "mailbox",
    "multiprocessing.pool", "optparse", "pathlib", "pickle", "pstats", "queue", "random", "sched", "shelve",
    "shutil", "smtplib", "socket", "sqlite3", "statistics", "string", "subprocess", "tarfile", "tempfile",
    "textwrap", "threading", "unittest", "urllib.request", "uuid", "weakref", "xml.dom.minidom", "zipfile",
)  # fmt: skip
QUERIES = 200
METRICS = {
    "ranking/hit_rate_at_5": "hit rate@5",
    "candidates/ndcg_at_10": "nDCG@10",
    "candidates/recall_at_100": "recall@100",
    "cost/context_tokens": "tokens",
}
MODES: Sequence[Mapping[str, str]] = ({"mode": "semantic"}, {"mode": "keyword"}, {"mode": "hybrid"})


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", choices=("handbook", "reference"), default="handbook", help="which pages")
    parser.add_argument("--limit", type=int, help="only so many queries, to try this out")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    with tempfile.TemporaryDirectory() as folder:
        if options.pages == "handbook":
            pages, golden, split = HANDBOOK / "docs", HANDBOOK / "golden.jsonl", "dev"
        else:
            (pages, golden), split = write_reference(Path(folder)), None
        data = {"dataset.path": golden, "dataset.split": split, "dataset.limit": options.limit, "sources.dir": pages}
        print("| context | merged | chunks | mode |", " | ".join(METRICS.values()), "|")
        print("|---|---|---:|---|" + "---:|" * len(METRICS))
        for merge in (False, True):
            for context in ("none", "title", "path"):
                for mode in MODES:
                    print(row(Path(folder), data, context, merge, mode), flush=True)


def row(folder: Path, data: Mapping[str, Any], context: str, merge: bool, mode: Mapping[str, str]) -> str:
    """Measure one mode on one way of indexing."""
    from evals import evaluate
    from evals.config.experiment import ExperimentConfig

    name = f"{context}_{merge}"
    settings = {
        **data,
        "retriever.store.path": folder / "store",
        "retriever.collection": name,
        "index.collection": name,
        "index.context": context,
        "index.merge_small": merge,
        "retriever.threshold": 0,
        **{f"retriever.{key}": value for key, value in mode.items()},
    }
    report = evaluate(metrics=[*METRICS], experiment=ExperimentConfig.load(settings=settings, env={}), env={}).report
    chunks = report.facts.collection.points if report.facts.collection else 0
    cells = [cell(metric, report.metrics[metric]) for metric in METRICS]
    return f"| {context} | {'yes' if merge else 'no'} | {chunks:,} | {mode['mode']} | {' | '.join(cells)} |"


def cell(metric: str, summary: Any) -> str:
    """Format a value, and its interval where it has one."""
    if summary.value is None:
        return "–"
    if metric.startswith("cost/"):
        return f"{summary.value:.0f}"
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
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
