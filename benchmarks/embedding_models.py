"""What embedding models find on the handbook (`dev`) and on Cranfield, in every mode, with and without context.

python benchmarks/embedding_models.py --data DIR [--models PROVIDER:MODEL …] [--limit N]

DIR holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt. Threshold 0, hybrid is weighted. Context is title and
section path in the handbook, and the title in Cranfield, whose texts repeat it at their beginning: without context it
is taken off. A model given as a path is named by its folder.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "datasets" / "physical_ai_handbook"
METRICS = ("ranking/hit_rate_at_5", "candidates/ndcg_at_10", "candidates/recall_at_100")
MODES = ("semantic", "keyword", "hybrid")


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
    from benchmarks import cranfield

    cases = cranfield.read_cases(data)
    chunks = cranfield.read_chunks(data / "cran.all.1400.xml")
    written = [replace(chunk, text=shown(chunk, context)) for chunk in chunks]
    config = cranfield.index(folder, written, {"model": model})
    lines = []
    for mode in MODES:
        found = cranfield.searched(config, {"mode": mode, "fusion": "weighted"}, [case.query for case in cases])
        measured: Mapping[str, float] = cranfield.quality(cases, found)
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


if __name__ == "__main__":
    main()
