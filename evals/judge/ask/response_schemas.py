"""The request of each provider for an answer in JSON of a schema."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel


@cache
def _schema_text(schema: type[BaseModel]) -> str:
    return json.dumps(schema.model_json_schema())


def _json_schema(schema: type[BaseModel]) -> Any:
    """Copy a response schema for one request, which the client may change; its fields stay in their order."""
    return json.loads(_schema_text(schema))


def _cohere_format(schema: type[BaseModel]) -> Mapping[str, Any]:
    return {"response_format": {"type": "json_object", "schema": _json_schema(schema)}}


def _openai_format(schema: type[BaseModel]) -> Mapping[str, Any]:
    described = {"name": schema.__name__, "schema": _json_schema(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _ollama_format(schema: type[BaseModel]) -> Mapping[str, Any]:
    return {"format": _json_schema(schema)}


# Option by which each provider returns JSON of a schema; the text of the others is searched for it.
STRUCTURES: Mapping[str, Callable[[type[BaseModel]], Mapping[str, Any]]] = {
    "cohere": _cohere_format,
    "openai": _openai_format,
    "ollama": _ollama_format,
}
