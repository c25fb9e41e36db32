"""Runs to and from MLflow, which only this package imports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evals.tracking.starting import start
from evals.tracking.store import FOLDER, check_database, check_folder, local_uri
from evals.tracking.tracker import Tracker

if TYPE_CHECKING:
    from evals.tracking.traced_queries import read_queries

__all__ = [
    "FOLDER",
    "Tracker",
    "check_database",
    "check_folder",
    "local_uri",
    "read_queries",
    "start",
]
# Functions that a run does not use.
_HOMES = {
    "read_queries": "traced_queries",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
