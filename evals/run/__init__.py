"""`python -m evals.run`: the command and its flags."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.run.command import PRESETS, load_config, main, parser

__all__ = ["PRESETS", "load_config", "main", "parser"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("evals.run.command"), name)
