"""Evaluation of retrieval: golden queries in, scores with their uncertainty out.

A public name is loaded when it is first used, so that `import evals` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.api import Evaluation, Experiment, Golden, Outputs, Sweep, compare_runs, evaluate, metric, sweep

__all__ = ["Evaluation", "Experiment", "Golden", "Outputs", "Sweep", "compare_runs", "evaluate", "metric", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("evals.api"), name)


def __dir__() -> list[str]:
    return __all__
