"""Runs to and from MLflow, which only this package imports."""

from evals.tracking.store import FOLDER, check_store

__all__ = ["FOLDER", "check_store"]
