"""Write docs/settings.md, the page of all settings, out of their models (`make schema`); --check as in schema.py."""

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from evals.config.experiment import ExperimentConfig
from retrievers.config.layers import ENVIRONMENT, default_text

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
NAMES = {str: "text", Path: "path", int: "whole number", float: "number", bool: "true or false"}
HEAD = """# Settings

Each setting of an experiment, with its type, its default and what it is for. Every one is a flag of
`python -m evals.run` (`--retriever.top-k 10`). Those of the retriever and of indexing are flags of
`python -m retrievers`, without `retriever.` and `index.`.

The precedence is flag, experiment file, environment, `.env`, default. Five variables set what is left out:
{variables}. No other variable does.

Lists are `[a, b]`, on the command line also `a, b`; mappings `{{a: b}}`; numbers of a sweep `1:20` or `0:0.95:0.05`.
`null` unsets a setting whose default is empty, `{{}}` and `[]` empty a mapping or a list.
[own_data.md](own_data.md#a-whole-experiment-line-by-line) explains a whole file.

<!-- This page is written by `make schema`. -->
"""


def page() -> str:
    """Return the page: a table of settings for each section."""
    variables = ",\n".join(f"`{name}` (`retriever.{setting}`)" for name, setting in ENVIRONMENT.items())
    return HEAD.format(variables=variables) + "".join(_sections(ExperimentConfig, ""))


def _sections(model: type[BaseModel], prefix: str) -> Iterator[str]:
    rows, inner = "", []
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            inner.append((info.annotation, f"{prefix}{name}."))
            continue
        default = f"`{text}`" if (text := default_text(info)) else ""
        rows += f"| `{prefix}{name}` | {_type(info.annotation)} | {default} | {info.description} |\n"
    about = " ".join((inspect.getdoc(model) or "").partition("\n\n")[0].split())
    title = prefix.removesuffix(".") or "experiment"
    yield f"\n## {title}\n\n{about}\n\n| setting | type | default | what it is for |\n|---|---|---|---|\n{rows}"
    for part, name in inner:
        yield from _sections(part, name)


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in parts)
    if origin in (Union, UnionType):
        return " or ".join(_type(part) for part in parts if part is not NoneType)
    if origin in (tuple, list, Sequence):
        return f"list of {_type(parts[0])}"
    return NAMES.get(annotation, "mapping" if origin is Mapping else "text")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE.name} is not what the code says: run `make schema`")
