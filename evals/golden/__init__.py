"""The tools that make golden data: they are checked, begun, imported, labelled by people, and written by a model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.golden.command import main

__all__ = ["main"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("evals.golden.command"), name)
