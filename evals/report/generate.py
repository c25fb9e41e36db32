"""`python -m evals.report.generate`: write `schema.json`, the field tables of docs/report.md and docs/metrics.md."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evals.collect.observations import Gate, SampledMean, Summary
from evals.grid.choice import Choice, HeldOut, Standing
from evals.grid.decision import Decision, Level, Turn
from evals.judge.ask.budget import Usage
from evals.judge.verdicts import ChunkVerdict, Claim
from evals.metrics.listing import markdown
from evals.report.model import Difference, Report
from evals.stats.abstention import OperatingPoint, Promise
from evals.stats.intervals import Interval
from evals.stats.paired import Paired

SCHEMA = Path(__file__).with_name("schema.json")
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "report.md"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Records of the evaluation that are sections of the report as they are.
RECORDS = (
    Choice,
    ChunkVerdict,
    Claim,
    Decision,
    Difference,
    Gate,
    HeldOut,
    Interval,
    Level,
    OperatingPoint,
    Paired,
    Promise,
    SampledMean,
    Standing,
    Summary,
    Turn,
    Usage,
)
METRICS = DOCUMENTATION.with_name("metrics.md")


def json_schema() -> dict[str, Any]:
    """Return the report's JSON Schema (draft 2020-12)."""
    schema = {"$schema": DIALECT, **Report.model_json_schema()}
    for record in RECORDS:
        _describe(schema["$defs"][record.__name__], inspect.getdoc(record) or "")
    return schema


def _describe(section: dict[str, Any], text: str) -> None:
    """Let a record of the evaluation be described by its docstring, which names its fields under `Attributes:`."""
    first, _, rest = text.partition("\n\n")
    fields: dict[str, str] = dict(re.findall(r"^    (\w+): ((?:.+\n?)(?:     +.+\n?)*)", rest, re.MULTILINE))
    section["description"] = " ".join(first.split())
    for name, field in section["properties"].items():
        if name in fields:
            said = " ".join(fields[name].split()).removesuffix(".")
            field["description"] = said[0].lower() + said[1:] if said[1:2].islower() else said


def documented(text: str) -> str:
    """Return the documentation with the field tables that the model gives, in place of those between the marks."""
    return _between(text, "fields", field_tables())


def with_metrics(text: str) -> str:
    """Return the list of metrics with the table that their declarations give, in place of that between the marks."""
    return _between(text, "metrics", f"\n{markdown()}\n")


def _between(text: str, name: str, written: str) -> str:
    begin, end = f"<!-- {name}: begin (written by `make schema`) -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    return before + begin + written + end + rest.split(end)[1]


def field_tables() -> str:
    """Return a heading and a table of fields for the report and each of its sections, in Markdown."""
    schema = json_schema()
    sections = {"Report": schema, **schema["$defs"]}
    return "".join(f"\n### {name}\n\n{_table(sections[name])}" for name in dict.fromkeys(_reached("Report", sections)))


def _reached(name: str, sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield a section, then those that its fields hold, depth first."""
    yield name
    fields = {key: value for key, value in sections[name].items() if key != "$defs"}
    for part in json.dumps(fields).split('"#/$defs/')[1:]:
        yield from _reached(part.partition('"')[0], sections)


def _table(section: Mapping[str, Any]) -> str:
    rows = [
        f"| `{name}` | {_type(field)} | {field['description']} |\n" for name, field in section["properties"].items()
    ]
    return f"{section['description']}\n\n| field | type | description |\n|---|---|---|\n{''.join(rows)}"


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = str(field["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if "const" in field or "enum" in field:
        return " or ".join(f"`{json.dumps(value)}`" for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        parts = field.get("prefixItems", [])
        return f"list of {len(parts)} {_type(parts[0])}" if parts else f"list of {_type(field['items'])}"
    if isinstance(inner := field.get("additionalProperties"), dict):
        return f"{_type(inner)}, by name"
    return str(field.get("type", "any"))


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    DOCUMENTATION.write_text(documented(DOCUMENTATION.read_text(encoding="utf-8")), encoding="utf-8")
    METRICS.write_text(with_metrics(METRICS.read_text(encoding="utf-8")), encoding="utf-8")
