"""Runs to and from MLflow, which only this package imports."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evals.tracking.starting import start
from evals.tracking.store import FOLDER, check_database, check_folder, local_uri
from evals.tracking.tracker import Tracker

if TYPE_CHECKING:
    from evals.tracking.golden_datasets import read_dataset, write_dataset
    from evals.tracking.query_scorers import scorers
    from evals.tracking.traced_queries import read_queries

__all__ = [
    "FOLDER",
    "Tracker",
    "check_database",
    "check_folder",
    "local_uri",
    "read_dataset",
    "read_queries",
    "scorers",
    "start",
    "write_dataset",
]
# Functions of MLflow's own evaluation, which a run does not use.
_HOMES = {
    "read_dataset": "golden_datasets",
    "scorers": "query_scorers",
    "read_queries": "traced_queries",
    "write_dataset": "golden_datasets",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
