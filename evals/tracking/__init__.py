"""Runs to and from MLflow, which only this package imports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evals.tracking.store import FOLDER, check_store

if TYPE_CHECKING:
    from evals.tracking.runs import late_command, write_run
    from evals.tracking.traced_queries import read_queries

__all__ = ["FOLDER", "check_store", "late_command", "read_queries", "write_run"]
# Functions that cost an import.
_HOMES = {"late_command": "runs", "read_queries": "traced_queries", "write_run": "runs"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
