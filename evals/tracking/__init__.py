"""Runs to and from MLflow, which only this package imports."""

from evals.tracking.starting import start
from evals.tracking.store import FOLDER, check_database, check_folder, local_uri
from evals.tracking.tracker import Tracker

__all__ = ["FOLDER", "Tracker", "check_database", "check_folder", "local_uri", "start"]
