"""Measure the default experiment and write it as its own baseline (`make baseline`).

python .ci/baseline.py [FILE]        write it elsewhere
"""

import sys
from pathlib import Path
from typing import Any

from evals.api import evaluate
from evals.config.files import PRESETS, write
from evals.report.model import Report
from evals.run import load_config, parser
from retrievers.text.shown import json_text

FILE = PRESETS / "baseline-default.json"
# Chunks of each result that are kept: all of the default experiment, so that another top_k can be compared with it.
CHUNKS = 5
# Parts that no comparison reads.
LEFT_OUT = {
    "verdict", "next_flags", "headline", "baseline", "slices", "notes", "criteria", "judge", "grid", "proxies",
}  # fmt: skip
OF_A_ROW = {"reference_answer", "expected", "irrelevant", "best_below_threshold", "claims", "tags", "stages_ms"}


def main() -> None:
    """Measure and write it; only what a comparison reads, and nothing that names this machine."""
    config = load_config(parser().parse_args([]), {}).model_copy(update={"baseline": None})
    file = Path(sys.argv[1]) if sys.argv[1:] else FILE
    write(file, json_text(committed(evaluate(experiment=config).report), indent=None) + "\n")


def committed(report: Report) -> dict[str, Any]:
    """Return a report as plain JSON values for a repository."""
    plain = report.model_dump(mode="json", exclude_unset=True, exclude=LEFT_OUT)
    plain["config"] = {name: plain["config"][name] for name in ("name", "index") if name in plain["config"]}
    plain["facts"] |= {"dataset": report.facts.dataset.rpartition("/")[2]}
    rows = [_row(row) for row in plain["queries"]]
    named = {hit["chunk_id"] for row in rows for hit in row["retrieved"]}
    chunks = {name: chunk | {"text": ""} for name, chunk in plain["chunks"].items() if name in named}
    return plain | {"criteria": [], "notes": [], "chunks": chunks, "queries": rows}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    figures = {name: value for name, value in row.items() if name not in OF_A_ROW}
    return figures | {"retrieved": row["retrieved"][:CHUNKS]}


if __name__ == "__main__":
    main()
