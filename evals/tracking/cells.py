"""Cells of a grid as MLflow runs below the grid's run."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from evals.collect.passes import Progress
from evals.grid.children import Child
from evals.tracking.values import cell_values

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

# Number of runs written concurrently. A database waits for its disk and a server for its database, so that this takes
# two thirds to four fifths of the time. MLflow holds two of SQLite's 15 connections for each: many more would fail.
WORKERS = 4


def log_cells(
    client: "MlflowClient", parent: "MlflowRun", children: Sequence[Child], progress: Progress
) -> dict[int, str]:
    """Write a run for each cell, three requests each, several cells at once; return their ids by cell.

    They start with the grid, a millisecond before one another, so that a list by time has them below it and in its
    order; the columns of MLflow's list are then those of the grid's run.

    Args:
        client: Client of MLflow.
        parent: The grid's run.
        children: The cells.
        progress: Called with the number of written cells.

    Raises:
        Exception: MLflow's, SQLAlchemy's or that of requests; cells that were not begun then are left out.
    """
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="cells")
    try:
        written = [
            pool.submit(_log_cell, client, parent, child, parent.info.start_time - number)
            for number, child in enumerate(children, 1)
        ]
        for count, run in enumerate(written, 1):
            run.result()
            progress("logging", count, len(written))
        return {child.cell: run.result() for child, run in zip(children, written, strict=True)}
    finally:
        pool.shutdown(cancel_futures=True)


def _log_cell(client: "MlflowClient", parent: "MlflowRun", child: Child, started: int) -> str:
    from mlflow.entities import Metric, Param

    tags = {"mlflow.parentRunId": parent.info.run_id, "mlflow.source.name": "evals.run", "cell": str(child.cell)}
    tags |= {"role": ", ".join(child.roles)} if child.roles else {}
    run_id: str = client.create_run(
        parent.info.experiment_id, start_time=started, run_name=child.name, tags=tags
    ).info.run_id
    status = "FAILED"
    try:
        client.log_batch(
            run_id,
            metrics=[Metric(name, value, started, 0) for name, value in cell_values(child.metrics).items()],
            params=[Param(name, str(value)) for name, value in child.parameters.items()],
        )
        status = "FINISHED"
    finally:
        client.set_terminated(run_id, status=status)
    return run_id
