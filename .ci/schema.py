"""Write the report's JSON Schema and the tables of docs/report.md and docs/metrics.md out of the code (`make schema`).

With --check it writes nothing and exits 1 where a file is not what the code says (`make check`).
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from evals.collect.observations import Gate, SampledMean, Summary
from evals.grid.choice import Choice, HeldOut, Standing
from evals.grid.decision import Decision, Figures, Level
from evals.judge.budget import Usage
from evals.judge.trust import Differing
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics import DEPTH, METRICS, values_of
from evals.metrics.timing import PERCENTILES, STAGES
from evals.report import model
from evals.stats.abstention import Signal
from evals.stats.intervals import Interval

ROOT = Path(__file__).parents[1]
COLUMNS = ("metric", "values", "better", "source", "needs", "about")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Records of the evaluation that are sections of the report as they are.
RECORDS = (
    ChunkVerdict, Choice, Claim, Decision, Differing, Figures, Gate, HeldOut, Interval, Level, SampledMean, Signal,
    Standing, Summary, Usage,
)  # fmt: skip


def written() -> dict[Path, str]:
    """Return the text of each file that is made of the code."""
    schema = json_schema()
    fields = "".join(f"| `{name}` | {field['description']} |\n" for name, field in schema["properties"].items())
    tables = {"report": ("fields", f"| field | holds |\n|---|---|\n{fields}"), "metrics": ("metrics", metrics_table())}
    return {ROOT / "evals" / "report" / "schema.json": json.dumps(schema, indent=2) + "\n"} | {
        (file := ROOT / "docs" / f"{name}.md"): _between(file.read_text(encoding="utf-8"), mark, table)
        for name, (mark, table) in tables.items()
    }


def json_schema() -> dict[str, Any]:
    """Return the report's JSON Schema (draft 2020-12), every section described by its docstring."""
    schema = {"$schema": DIALECT, **model.Report.model_json_schema()}
    sections = [each for each in vars(model).values() if isinstance(each, type) and issubclass(each, model.Part)]
    for each in (*RECORDS, *sections):
        section = schema if each is model.Report else schema["$defs"].get(each.__name__)
        if section:
            first, _, rest = (inspect.getdoc(each) or "").partition("\n\n")
            fields: dict[str, str] = dict(re.findall(r"^    (\w+): ((?:.+\n?)(?:     +.+\n?)*)", rest, re.MULTILINE))
            section["description"] = " ".join(first.split())
            for name in section.get("properties", {}).keys() & fields.keys():
                said = " ".join(fields[name].split()).removesuffix(".")
                section["properties"][name]["description"] = said[0].lower() + said[1:] if said[1:2].islower() else said
    return schema


def metrics_table() -> str:
    """Return the table of docs/metrics.md; metrics that differ in depth alone are one row, and those of latency."""
    rows = dict[str, tuple[str, ...]]()
    for metric in METRICS.values():
        level, name = DEPTH.search(metric.name), f"`{DEPTH.sub('_at_K', metric.name)}`"
        about = re.sub(rf"\b{level[1]}\b", "K", metric.about) if level else metric.about
        if "latency" in metric.needs:
            name, statistics = "`latency/STAGE_STATISTIC_ms_cN`", ", ".join(("mean", *PERCENTILES))
            about = f"time of a stage ({', '.join(STAGES)}; {statistics}), N calls at once; without `_cN` one by one"
        rows[name] = (name, values_of(metric), metric.direction, metric.source, ", ".join(sorted(metric.needs)), about)
    head = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows.values())


def _between(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: begin (written by `make schema`) -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    for file, text in written().items():
        if "--check" not in sys.argv:
            file.write_text(text, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != text:
            sys.exit(f"{file.name} is not what the code says: run `make schema`")
