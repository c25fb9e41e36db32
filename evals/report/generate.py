"""`python -m evals.report.generate`: write `schema.json` and the tables of docs/report.md and docs/metrics.md."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

from evals.collect.observations import Gate, SampledMean, Summary
from evals.grid.choice import Choice, HeldOut, Standing
from evals.grid.decision import Decision, Level, Turn
from evals.judge.budget import Usage
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics import markdown
from evals.report import model
from evals.report.model import Difference, Report
from evals.stats.abstention import Promise
from evals.stats.intervals import Interval
from evals.stats.paired import Paired

SCHEMA = Path(__file__).with_name("schema.json")
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "report.md"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Records of the evaluation that are sections of the report as they are.
RECORDS = (
    *(Choice, ChunkVerdict, Claim, Decision, Difference, Gate, HeldOut, Interval, Level),
    *(Paired, Promise, SampledMean, Standing, Summary, Turn, Usage),
)
METRICS = DOCUMENTATION.with_name("metrics.md")


def json_schema() -> dict[str, Any]:
    """Return the report's JSON Schema (draft 2020-12), every section described by its docstring."""
    schema = {"$schema": DIALECT, **Report.model_json_schema()}
    sections = [each for each in vars(model).values() if isinstance(each, type) and issubclass(each, model.Section)]
    for each in (*RECORDS, *sections):
        section = schema if each is Report else schema["$defs"].get(each.__name__)
        if section:
            first, _, rest = (inspect.getdoc(each) or "").partition("\n\n")
            fields: dict[str, str] = dict(re.findall(r"^    (\w+): ((?:.+\n?)(?:     +.+\n?)*)", rest, re.MULTILINE))
            section["description"] = " ".join(first.split())
            for name in section["properties"].keys() & fields.keys():
                said = " ".join(fields[name].split()).removesuffix(".")
                section["properties"][name]["description"] = said[0].lower() + said[1:] if said[1:2].islower() else said
    return schema


def documented(text: str) -> str:
    """Return the documentation with a table of the report's fields in place of that between the marks."""
    fields = json_schema()["properties"].items()
    rows = "".join(f"| `{name}` | {field['description']} |\n" for name, field in fields)
    return _between(text, "fields", f"\n| field | holds |\n|---|---|\n{rows}\n")


def with_metrics(text: str) -> str:
    """Return the list of metrics with the table that their declarations give, in place of that between the marks."""
    return _between(text, "metrics", f"\n{markdown()}\n")


def _between(text: str, name: str, written: str) -> str:
    begin, end = f"<!-- {name}: begin (written by `make schema`) -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    return before + begin + written + end + rest.split(end)[1]


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    DOCUMENTATION.write_text(documented(DOCUMENTATION.read_text(encoding="utf-8")), encoding="utf-8")
    METRICS.write_text(with_metrics(METRICS.read_text(encoding="utf-8")), encoding="utf-8")
