"""Runs to and from MLflow, which only this package imports."""

from evals.tracking.store import FOLDER as FOLDER
from evals.tracking.store import check_store as check_store
