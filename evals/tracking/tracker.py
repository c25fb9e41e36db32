"""A run in MLflow, from its beginning to its end."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from evals.collect.passes import Progress
from evals.golden.loading import GoldenSet
from evals.grid.children import Child
from evals.report.model import Report
from evals.report.traces import QueryTrace
from evals.tracking.addresses import comparison_page, run_page, server_of
from evals.tracking.cells import log_cells, with_cell_links
from evals.tracking.client import mlflow_at, quiet
from evals.tracking.traces import write_traces
from evals.tracking.values import DESCRIPTION_TAG, MOST_ALONG, metric_values, metrics_table, six_digits, table, tags
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)
REPORT_TAG = "report.sha256"
# Its value in a run that has no report yet.
NO_REPORT = "none yet"
# Tag of a run some of whose traces failed: how many.
MISSING_TRACES = "traces.missing"
# Most metrics of one request.
BATCH = 1_000


class Tracker:
    """One MLflow run, begun by `evals.tracking.start`.

    Attributes:
        lacks_traces: True once a trace of this run failed that a further attempt may bring.
        side_by_side: Page that shows two cells of its grid query by query; empty where there are no two with traces.
    """

    def __init__(self, client: "MlflowClient", run_id: str, experiment_id: str, uri: str) -> None:
        self.client = client
        self.run_id = run_id
        self.experiment_id = experiment_id
        self.uri = uri
        self.lacks_traces = False
        self.side_by_side = ""

    @property
    def address(self) -> str:
        """The run's page on its server; empty where runs are in a local database."""
        return run_page(server_of(self.uri), self.experiment_id, self.run_id) if self.uri.startswith("http") else ""

    def log(self, report: Report, golden: GoldenSet | None, digest: str) -> None:
        """Write the run: its first metrics, tags, golden data, facts, the tables of all metrics and of its queries.

        Writing it a second time changes nothing, so that a run that was left half written can be completed.

        Args:
            report: The run.
            golden: Its golden queries, logged as the run's input; None where they cannot be had.
            digest: SHA-256 of the report's text, by which the run is found again.

        Raises:
            TrackingError: MLflow failed; what was written so far stays.
        """
        with mlflow_at(self.uri):
            from mlflow.entities import Metric

            self.client.set_tag(self.run_id, REPORT_TAG, digest)
            # The same at a second time: MLflow keeps equal values once.
            begun = int(datetime.fromisoformat(report.facts.started_at).timestamp() * 1000)
            metrics = [Metric(key, value, begun, 0) for key, value in metric_values(report).items()]
            self.client.log_batch(self.run_id, metrics=metrics)
            for name, value in tags(report).items():
                self.client.set_tag(self.run_id, name, value)
            if golden:
                self._log_input(golden)
            self._log_table(metrics_table(report), "metrics.json")
            self._log_table(table(report), "queries.json")
            self.client.log_dict(self.run_id, report.facts.model_dump(mode="json"), "facts.json")

    def log_files(self, files: Mapping[str, str]) -> None:
        """Write artifacts.

        Args:
            files: Path of the artifact to its text.

        Raises:
            TrackingError: MLflow failed; what was written so far stays.
        """
        with mlflow_at(self.uri), TemporaryDirectory() as folder:
            for name, text in files.items():
                file = Path(folder, name)
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8")
            self.client.log_artifacts(self.run_id, folder)

    def log_grid(
        self,
        children: Sequence[Child],
        table: Mapping[str, Sequence[Any]],
        along: Mapping[str, Sequence[tuple[int, float]]],
        progress: Progress,
    ) -> dict[int, str]:
        """Write a grid: its table, its metrics along top_k as steps, and runs below this one for some of its cells.

        Args:
            children: The cells that get a run of their own, with values only.
            table: The whole grid by columns.
            along: Metric to (top_k, mean); the first are logged as `by_top_k/METRIC` with `step` = top_k.
            progress: Called with the number of written cells.

        Returns:
            The ids of the cells' runs by cell.

        Raises:
            TrackingError: MLflow failed; what was written so far stays.
        """
        with mlflow_at(self.uri):
            from mlflow.entities import Metric

            self._log_table({name: list(values) for name, values in table.items()}, "grid.json")
            # The same at a second time: MLflow keeps equal values once.
            now = int(self.client.get_run(self.run_id).info.start_time)
            steps = [
                Metric(f"by_top_k/{name}", six_digits(value), now, top_k)
                for name, values in islice(along.items(), MOST_ALONG)
                for top_k, value in values
            ]
            for start in range(0, len(steps), BATCH):
                self.client.log_batch(self.run_id, metrics=steps[start : start + BATCH])
            return log_cells(self.client, self.client.get_run(self.run_id), children, progress)

    def log_traces(self, traces: Sequence[QueryTrace], runs: Sequence[str] = ()) -> None:
        """Write queries as traces, with their scores as assessments. Those that fail are logged, and counted in a tag.

        Args:
            traces: The worst first.
            runs: Ids of the runs that they are of; this one when left out.

        Raises:
            TrackingError: MLflow cannot be spoken to at all.
        """
        with mlflow_at(self.uri):
            missing = write_traces(self.client, self.experiment_id, runs or (self.run_id,), traces)
            if missing and self.run_id in (runs or (self.run_id,)):
                self.client.set_tag(self.run_id, MISSING_TRACES, str(missing))
                self.lacks_traces = True

    def set_side_by_side(self, cell: str, other: str) -> None:
        """Name the page of two cells, by the ids of their runs."""
        self.side_by_side = comparison_page(server_of(self.uri), self.experiment_id, cell, other)

    def link_cells(self, text: str, children: Sequence[Child], runs: Mapping[int, str]) -> None:
        """Write the description of a grid with links to the comparisons of its cells.

        Args:
            text: The description.
            children: The cells that have a run.
            runs: Cell to the id of its run.

        Raises:
            TrackingError: MLflow failed; the description is as it was.
        """
        page = self.side_by_side.removeprefix(server_of(self.uri)).removeprefix("/")
        with mlflow_at(self.uri):
            linked = with_cell_links(text, self.experiment_id, children, runs, page)
            self.client.set_tag(self.run_id, DESCRIPTION_TAG, linked)

    def end(self, status: str) -> bool:
        """End the run as FINISHED, FAILED or KILLED; return False, and log it, where that fails."""
        try:
            with quiet():
                self.client.set_terminated(self.run_id, status=status)
        except Exception as error:  # the run is over; there is nothing left to save
            log.error("MLflow run %s could not be ended as %s: %s", self.run_id, status, redacted(str(error)))
            return False
        return True

    def _log_table(self, columns: Mapping[str, Sequence[Any]], name: str) -> None:
        """Write a table in place of the one that is there, to which MLflow would add rows."""
        with TemporaryDirectory() as folder:
            if name in {item.path for item in self.client.list_artifacts(self.run_id)}:
                from pandas import DataFrame

                file = Path(folder, name)
                file.write_text(DataFrame(columns).to_json(orient="split", index=False), encoding="utf-8")
                self.client.log_artifact(self.run_id, str(file))
            else:
                self.client.log_table(self.run_id, dict(columns), name)

    def _log_input(self, golden: GoldenSet) -> None:
        from mlflow.data.huggingface_dataset import from_huggingface
        from mlflow.entities import DatasetInput, InputTag
        from mlflow.exceptions import MlflowException

        # without a source MLflow describes the process instead, with MLFLOW_TRACKING_USERNAME and three calls of git
        is_file = Path(golden.name).exists()
        data = from_huggingface(
            golden.to_huggingface(),
            name=Path(golden.name).stem,
            # MLflow's column holds 36 characters.
            digest=golden.fingerprint[:36],
            source=golden.name if is_file else None,
            path=None if is_file else golden.name,
        )
        entry = DatasetInput(data._to_mlflow_entity(), [InputTag("mlflow.data.context", "evaluation")])
        try:
            self.client.log_inputs(self.run_id, [entry])
        except MlflowException as error:
            if error.error_code != "BAD_REQUEST":
                raise
            # Another run has entered the same golden data since MLflow looked for it; now it is found there.
            self.client.log_inputs(self.run_id, [entry])
