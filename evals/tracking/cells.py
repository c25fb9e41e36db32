"""Cells of a grid as MLflow runs below the run of the grid, and links to comparisons of them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from evals.collect.passes import Progress
from evals.grid.children import Child
from evals.tracking.addresses import plots_page
from evals.tracking.values import cell_values

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

# Number of runs written concurrently. A database waits for its disk and a server for its database, so that this takes
# two thirds to four fifths of the time. MLflow holds two of SQLite's 15 connections for each: many more would fail.
WORKERS = 4
# Most cells of a link; more make the page slow, and the description too long for MLflow.
MOST_CELLS = 50
# Characters of a tag's value that MLflow keeps.
MOST_CHARACTERS = 8_000


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


def with_cell_links(
    description: str, experiment_id: str, children: Sequence[Child], runs: Mapping[int, str], side_by_side: str
) -> str:
    """Return a grid's description with links behind its first paragraph; as it is where they would make it too long.

    Args:
        description: The verdict, then what it rests on.
        experiment_id: Id of the grid's experiment.
        children: The cells that have a run.
        runs: Cell to the id of its run.
        side_by_side: Page that shows two of them query by query, relative to the server; empty where there is none.
    """
    groups = {"all": children[:MOST_CELLS], **_by_retrieval(children)} if len(children) > 1 else {}
    links = [
        f"[{name}]({plots_page('', experiment_id, [runs[child.cell] for child in cells])})"
        for name, cells in groups.items()
    ]
    lines = [f"Cells by threshold and top_k: {' · '.join(links)}"] if links else []
    lines += [f"[The recommended cell beside another, query by query]({side_by_side})"] if side_by_side else []
    verdict, _, rest = description.partition("\n\n")
    linked = "\n\n".join((verdict, *lines, rest))
    return linked if len(linked) <= MOST_CHARACTERS else description


def _by_retrieval(children: Sequence[Child]) -> dict[str, Sequence[Child]]:
    """Return the cells of each retrieval that has several, by the settings that tell them apart; none of one alone."""
    settings = [
        {name: value for name, value in child.parameters.items() if not name.startswith("cell.")} for child in children
    ]
    telling = (
        [name for name in settings[0] if len({str(setting.get(name)) for setting in settings}) > 1] if settings else []
    )
    groups: dict[str, list[Child]] = {}
    for child, setting in zip(children, settings, strict=True):
        groups.setdefault(_label(setting, telling), []).append(child)
    if len(groups) == 1:
        return {}
    return {name: cells for name, cells in groups.items() if 1 < len(cells) <= MOST_CELLS}


def _label(settings: Mapping[str, Any], telling: Sequence[str]) -> str:
    values = {name: settings.get(name) for name in telling}
    return " ".join(
        str(value) if isinstance(value, str) else f"{name.rpartition('.')[2]} {value}" for name, value in values.items()
    )
