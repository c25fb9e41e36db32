"""Addresses of pages in MLflow's user interface. Pure."""

import json
from collections.abc import Sequence
from urllib.parse import quote

from retrievers.text.secrets import redacted

PORT = 5000
# Where `make ui` and `retrieval-evals ui` show the local runs.
LOCAL = f"http://127.0.0.1:{PORT}"


def server_of(uri: str | None) -> str:
    """Return the address of the user interface for a store: that of a server, or the one of `make ui`."""
    return redacted(uri).rstrip("/") if uri and uri.startswith(("http://", "https://")) else LOCAL


def runs_page(server: str, experiment_id: str | None) -> str:
    """Return the address of the runs of an experiment, or of all experiments."""
    return f"{server}/#/experiments" + (f"/{experiment_id}/evaluation-runs" if experiment_id else "")


def run_page(server: str, experiment_id: str, run_id: str) -> str:
    """Return the address of a run."""
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}"


def plots_page(server: str, experiment_id: str, run_ids: Sequence[str]) -> str:
    """Return the address of MLflow's plots of runs; without a server one that is relative to a page of the server."""
    runs, experiments = (quote(json.dumps(ids, separators=(",", ":"))) for ids in (list(run_ids), [experiment_id]))
    return f"{server and f'{server}/'}#/compare-runs?runs={runs}&experiments={experiments}"


def comparison_page(server: str, experiment_id: str, run_id: str, baseline_id: str) -> str:
    """Return the address of a run beside a baseline, query by query."""
    return f"{run_page(server, experiment_id, run_id)}/evaluations?compareToRunUuid={baseline_id}"
