"""The handbook in every mode and fusion, what context and merging of chunks are worth, and what a judged sample tells.

python benchmarks/handbook.py [--only modes,context,reference,rounds,proxies] [--limit N] [--draws 80]

Modes: the default experiment's test split with and without MMR, top_k 10, without a threshold and behind the default
experiment's. No cross-encoder: one by the network needs a key, a local one its weights, and one that merely answers
would say nothing of any.

Context: every way of indexing on `dev`, hybrid weighted, top_k 5, no threshold. Reference: the same on pages that
nobody tuned it to. These are made of Python's own documentation strings: a page for each module, a section for each
public function, class and method. A query is the first sentence of a string, and the section that it belongs to is
what is to be found; the page holds the rest of the string.

Rounds: what share of the verdicts judging in rounds takes until a cell is proved. 132 in-scope queries, 162 cells,
context precision by a judge that errs on 7% of the chunks, foretold by the labels. A draw is an order of the queries.
For each margin: the mean share of queries and of verdicts that were judged, and the share of draws in which every bound
held against all verdicts. Bound: held in 95%.

Proxies: what foretells a judge where golden data have no labels. These are taken away, and a judge that knows them and
errs on 7% of its questions grades context precision and recall of three retrievals. For each metric and proxy: r, the
correlation with the judged score over queries; λ, the mean weight over draws of 40 judged queries; the width of the
corrected interval over that of judging alone; the share of intervals that hold the mean of all that users may ask (the
queries of a draw are taken from all of them with replacement). Compared: labels, words of the reference answer, both
(labels of a random half), and chance. Bounds: held in 93%; width at most 1.01, since a proxy that says nothing must do
no harm.
"""

import argparse
import hashlib
import importlib
import inspect
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
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
PARTS = ("modes", "context", "reference", "rounds", "proxies")
ERRS, JUDGED = 0.07, 40
SWEEP = {
    "sweep.mode": ["semantic", "keyword", "hybrid"],
    "sweep.rerank": ["none", "mmr"],
    "sweep.top_k": [3, 5, 10],
    "sweep.threshold": [round(0.1 + 0.05 * step, 2) for step in range(9)],
}
RETRIEVALS = (("semantic", 5), ("hybrid", 5), ("hybrid", 10))


def main() -> None:
    """Measure and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="modes,context", help=f"parts to measure, of {', '.join(PARTS)}")
    parser.add_argument("--limit", type=int, help="only so many queries, to try this out")
    parser.add_argument("--draws", type=int, default=80, help="of rounds and proxies")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := {*wanted} - {*PARTS}:
        parser.error(f"--only: expected some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    print(f"{datetime.now(UTC):%Y-%m-%d}; in parentheses 95% intervals")
    with tempfile.TemporaryDirectory() as folder:
        if "modes" in wanted:
            modes(Path(folder), options.limit)
        if "context" in wanted:
            context(Path(folder), HANDBOOK / "docs", HANDBOOK / "golden.jsonl", "dev", options.limit)
        if "reference" in wanted:
            context(Path(folder), *write_reference(Path(folder)), None, options.limit)
        if "rounds" in wanted:
            rounds(Path(folder), options.draws)
        if "proxies" in wanted:
            proxies(Path(folder), options.draws)


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
                "retriever.mode": "hybrid",
                "retriever.fusion": "weighted",
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


# Judged samples


def retrieved(folder: Path, settings: Mapping[str, Any]) -> tuple[list[list[Any]], Sequence[Any]]:
    """Return for each cell of the default experiment what all in-scope queries get, and the chunks of the handbook."""
    from evals.cases.reading import load_golden
    from evals.collect.pool import ground
    from evals.config.experiment import ExperimentConfig
    from evals.experiment.bench import index_if_stale
    from evals.grid.axes import plan
    from evals.grid.measure import alone, grid_of, retrieve
    from evals.metrics.declaration import Collaborators
    from retrievers.retriever.opened import open_retriever
    from tests.support.experiment import silent

    where = {"retriever.store.path": folder / "judged", "dataset.split": None}
    config = ExperimentConfig.load(EXPERIMENT, {**where, **settings}, env={})
    golden = load_golden(config.dataset)
    index_if_stale(config, {}, silent)
    sweep = plan(config.retriever, config.sweep) if config.sweep.axes else alone(config)
    with ExitStack() as opened:
        retrievers = [opened.enter_context(open_retriever(one.settings, env={})) for one in sweep.variants]
        collaborators = Collaborators(retrievers=retrievers, progress=silent)
        grounds, of_all = ground(golden, retrievers[0]), range(len(retrievers))
        grid = grid_of(sweep, retrieve(sweep, golden, grounds, collaborators, of_all))
        cells = [[o for o in grid.results(cell).observations() if o.case.in_scope] for cell in range(len(grid))]
        return cells, retrievers[0].chunks()


def rounds(folder: Path, draws: int) -> None:
    """Judge in rounds and print what it takes."""
    from evals.judge.verdicts import average_precision

    cells, _ = retrieved(folder, SWEEP)
    rng, errs = np.random.default_rng(0), dict[tuple[str, str], bool]()
    judged, proxy = np.empty((2, len(cells[0]), len(cells)))
    for column, cell in enumerate(cells):
        for row, o in enumerate(cell):
            found = o.selection.chunk_ids
            labels = np.array([key in o.relevance.grades for key in found], dtype=np.bool_)
            wrong = [errs.setdefault((o.case.id, key), rng.random() < ERRS) for key in found]
            judged[row, column], proxy[row, column] = average_precision(
                np.stack([labels ^ np.array(wrong, dtype=np.bool_), labels])
            )
    # Of cells that score the same the first stands for all.
    first = np.unique(judged, axis=1, return_index=True)[1].tolist()
    returned = [[frozenset(cells[column][row].selection.chunk_ids) for column in first] for row in range(len(judged))]
    print(f"\n{len(judged)} queries, {len(first)} cells that differ")
    for margin in (0.05, 0.02):
        drawn = [in_rounds(judged[:, first], proxy[:, first], returned, margin, seed) for seed in range(draws)]
        queries, verdicts, held = np.mean(drawn, axis=0)
        print(f"margin {margin}: {queries:.1%} of the queries, {verdicts:.1%} of the verdicts; held {held:.1%}")


def in_rounds(
    judged: Floats, proxy: Floats, returned: Sequence[Sequence[frozenset[str]]], margin: float, seed: int
) -> tuple[float, float, bool]:
    """Return the shares of queries and of verdicts that were judged, and whether every bound held."""
    from evals.sampling.rounds import Unjudged, judge_in_rounds

    order, bought = np.random.default_rng(seed).permutation(len(judged)), 0
    codes: dict[frozenset[str], int] = {}
    results = np.array([[codes.setdefault(found, len(codes)) for found in row] for row in returned])

    def ask(rows: NDArray[np.int64], alive: NDArray[np.bool_]) -> tuple[Floats, bool]:
        nonlocal bought
        bought += sum(verdicts(returned[row], alive) for row in order[rows])
        return judged[order[rows]][:, alive], True

    queries = Unjudged(proxy=proxy[order], results=results[order], alone=None, span=1.0)
    looks = [*judge_in_rounds(ask, queries, margin=margin, most=len(order), seed=seed)]
    means, everything = judged.mean(axis=0), np.ones(judged.shape[1], dtype=np.bool_)
    held = all(means.max() - means[look.chosen] <= look.within[look.chosen] + 1e-9 for look in looks)
    return looks[-1].n / len(order), bought / sum(verdicts(row, everything) for row in returned), held


def verdicts(row: Sequence[frozenset[str]], alive: NDArray[np.bool_]) -> int:
    """Return the number of chunks of a query that some of the cells return."""
    return len(frozenset().union(*(row[cell] for cell in np.flatnonzero(alive).tolist())))


def proxies(folder: Path, draws: int) -> None:
    """Judge samples and print a row for each metric and proxy."""
    print(f"\n{'judged metric':<34} {'proxy':<12} {'r':>5} {'λ':>5} {'width':>6} {'held':>6}")
    for mode, top_k in RETRIEVALS:
        for metric, judged, foretold in judged_and_foretold(folder, mode, top_k):
            for name, proxy in {**foretold, "chance": np.random.default_rng(1).random(len(judged))}.items():
                weight, width, held = sampled(judged, proxy, draws)
                correlation = float(np.corrcoef(judged, proxy)[0, 1])
                title = f"{metric}, {mode}, top_k {top_k}"
                print(f"{title:<34} {name:<12} {correlation:>5.2f} {weight:>5.2f} {width:>6.2f} {held:>6.1%}")


def sampled(judged: Floats, proxy: Floats, draws: int) -> tuple[float, float, float]:
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


def judged_and_foretold(folder: Path, mode: str, top_k: int) -> Iterator[tuple[str, Floats, dict[str, Floats]]]:
    """Context precision and recall of the in-scope queries by the judge, and what foretells them."""
    from evals.judge.verdicts import average_precision
    from evals.metrics.proxies import PRECISION_PROXY, RECALL_PROXY
    from tests.support.judging import Oracle, golden_labels
    from tests.support.observed import scored

    own = {"mode": mode, "top_k": top_k, "threshold": 0, "threshold_on": "each"}
    [labelled], chunks = retrieved(folder, {f"retriever.{key}": value for key, value in own.items()})
    oracle = Oracle(golden_labels([o.case for o in labelled], chunks), false_useful=ERRS, false_useless=ERRS)
    precision, recall = [], []
    for o in labelled:
        query, texts = o.case.query, [chunk.text for chunk in o.selection.chunks]
        precision += average_precision(np.array([[oracle.verdict(query, text) for text in texts]])).tolist()
        held = [oracle.attributed(query, "\n".join(texts), claim) for claim in oracle.labels[query].claims]
        recall.append(float(np.mean(held)))
    bare = [replace(o, case=o.case.model_copy(update={"evidence": [], "relevant_ids": {}})) for o in labelled]
    half = [o if number % 2 else other for number, (o, other) in enumerate(zip(labelled, bare, strict=True))]
    results = {"labels": labelled, "words": bare, "half labelled": half}
    for name, proxy, judged in (("precision", PRECISION_PROXY, precision), ("recall", RECALL_PROXY, recall)):
        foretold = {kind: np.array(scored(proxy, own), dtype=np.float64) for kind, own in results.items()}
        yield name, np.array(judged), foretold


if __name__ == "__main__":
    main()
