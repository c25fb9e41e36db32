"""A measured experiment to what shows it: its run in MLflow, its page."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from evals import tracking
from evals.collect.passes import Progress
from evals.config.experiment import ExperimentConfig
from evals.errors import TrackingError
from evals.experiment.evaluation import Evaluation
from evals.golden.loading import GoldenSet
from evals.tracking.marks import being_logged, late_command, left_behind
from evals.tracking.views import discard, keep, log_views
from retrievers.config import dump

log = logging.getLogger(__name__)
WRITING = "writing"


class TrackingRun:
    """The run in MLflow, which is begun once its report is saved.

    A failure of MLflow stops nothing; `fault` holds the first one.
    """

    def __init__(self, config: ExperimentConfig, name: str, retriever: str) -> None:
        self.config, self.name, self.retriever = config, name, retriever
        self.fault = ""
        self._tracker: tracking.Tracker | None = None
        self._ended = False
        self._started_ms = int(time.time() * 1000)

    def begin(self, digest: str) -> None:
        """Begin the run, unless the experiment is not tracked.

        Args:
            digest: SHA-256 of its report's text.
        """
        if not self.config.tracking.enabled:
            return
        try:
            settings = dump(self.config)
            if "embedding" in settings["retriever"]:
                settings["retriever"]["embedding"]["model"] = self.config.retriever.embedding.resolved_model
            self._tracker = tracking.start(
                self.config.tracking, self.name, settings, self.retriever, self._started_ms, digest
            )
        except TrackingError as error:
            self._failed(error)

    def finish(self) -> None:
        """End a run that has all of its report as finished; where that fails, it has a fault."""
        if self._tracker is None or self.fault:
            return
        self._ended = True
        if not self._tracker.end("FINISHED"):
            self.fault = f"MLflow run {self._tracker.run_id} could not be ended"

    @property
    def address(self) -> str:
        """The run's page on its server; empty without a run or a server."""
        return self._tracker.address if self._tracker else ""

    @property
    def lacks_traces(self) -> bool:
        """True if some of its traces failed."""
        return self._tracker is not None and self._tracker.lacks_traces

    @property
    def side_by_side(self) -> str:
        """The page that shows two cells of its grid side by side; empty without them."""
        return self._tracker.side_by_side if self._tracker else ""

    def write(self, action: Callable[[tracking.Tracker], None]) -> None:
        """Write to the run, if there is one and it has not failed."""
        if self._tracker is None or self.fault:
            return
        try:
            action(self._tracker)
        except TrackingError as error:
            self._failed(error)

    @contextmanager
    def ended(self) -> Iterator[None]:
        """End the run with the block: finished, failed, or killed by an interrupt."""
        status = "FAILED"
        try:
            yield
            status = "FAILED" if self.fault else "FINISHED"
        except KeyboardInterrupt:
            status = "KILLED"
            raise
        finally:
            if self._tracker and not self._ended:
                self._tracker.end(status)

    def _failed(self, error: TrackingError) -> None:
        log.debug("MLflow failed", exc_info=True)
        self.fault = str(error)


def publish(evaluation: Evaluation, text: str, golden: GoldenSet, run: TrackingRun, progress: Progress) -> Evaluation:
    """Publish a run. Its report is marked until MLflow has all of it; marked ones of earlier runs are named.

    Args and errors are those of `_published`.
    """
    file = evaluation.outputs.report
    if not (run.config.tracking.enabled and file):
        return _published(evaluation, text, golden, run, progress)
    with run.ended(), being_logged(file) as mark:
        published = _published(evaluation, text, golden, run, progress)
        run.finish()
        if not run.fault and not run.lacks_traces:
            discard(file)
            mark.remove()
    if run.lacks_traces and not run.fault:
        log.warning("%s writes the traces that failed", late_command(file, run.config.tracking))
    elif not run.fault:
        for earlier in left_behind(file.parent):
            log.warning("MLflow lacks the run of %s; %s writes it", earlier, late_command(earlier))
    return replace(published, untracked=run.fault)


def _published(
    evaluation: Evaluation, text: str, golden: GoldenSet, run: TrackingRun, progress: Progress
) -> Evaluation:
    """Write what shows a run whose report is saved: its values to MLflow, its page, then the page to MLflow.

    Args:
        evaluation: The finished experiment, with the files that it is written to.
        text: The text of its report.
        golden: The golden queries of the run.
        run: The run in MLflow.
        progress: Called as files and cells are written.

    Returns:
        The experiment, with the reason why MLflow lacks a part of it.

    Raises:
        ConfigError: The page cannot be written.
    """
    outputs = evaluation.outputs
    if not (outputs.html or run.config.tracking.enabled):
        return evaluation
    from evals.experiment.report_files import save_page, views_of

    progress(WRITING, 0, 3)
    digest = hashlib.sha256(text.encode()).hexdigest()
    run.begin(digest)
    # The values first: of all that is written here they would be missed most.
    run.write(lambda tracker: tracker.log(evaluation.report, golden, digest))
    progress(WRITING, 1, 3)
    page = save_page(evaluation, outputs.html)
    progress(WRITING, 2, 3)
    if run.config.tracking.enabled:
        views = views_of(evaluation, digest, page)
        if outputs.report:
            keep(outputs.report, views)
        run.write(lambda tracker: log_views(tracker, evaluation.report, text, views, progress))
    progress(WRITING, 3, 3)
    return replace(evaluation, address=run.address, side_by_side=run.side_by_side, untracked=run.fault)
