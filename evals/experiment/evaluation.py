"""A finished experiment: its report, and the result that the report was built from. Notebooks show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from evals.experiment.outputs import Outputs, save_report, save_views
from retrievers.config import RetrieverConfig

if TYPE_CHECKING:
    from pandas import DataFrame

    from evals.collect.observations import Summary
    from evals.grid.measure import Measured
    from evals.report.model import Report

# Fields of a query that `to_pandas` has.
OF_A_QUERY = ("id", "query", "in_scope", "query_type", "outcome", "reasons", "top_score")


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """A finished run.

    Attributes:
        report: The run, with the fields that `docs/report.md` describes. `report.plain()` returns JSON values.
        result: The result that the report was built from. It holds more than the report, such as all candidates.
        outputs: The files that were written.
        address: Page of the run on its MLflow server; empty if runs are kept in a local database, or not at all.
        untracked: Reason why MLflow does not have the run; empty if it has, or if tracking is off.
    """

    report: "Report"
    result: "Measured"
    outputs: Outputs
    address: str = ""
    untracked: str = ""

    def __repr__(self) -> str:
        """Return the head and table of the grid, then of the run, as the command shows them."""
        return self._shown(color=False)

    def _repr_html_(self) -> str:
        """Return head and table for a notebook, and below them the page with its figures, in a frame."""
        from evals.report.html import render_page
        from evals.report.section import in_html

        look, page = "width: 100%; height: 42em; border: 0", escape(render_page(self.report))
        frame = f'<iframe title="The page of the run" sandbox="allow-scripts" style="{look}" srcdoc="{page}"></iframe>'
        return in_html(self._shown(color=True)) + frame

    def _shown(self, *, color: bool) -> str:
        from evals.report.section import PRINTED
        from evals.report.terminal import render

        report = self.report.model_copy(update={"incomplete": self.incomplete, "passed": self.passed})
        return render(report, width=PRINTED, color=color, brief=True, whole=True).rstrip("\n")

    @property
    def metrics(self) -> "Mapping[str, Summary]":
        """Metric to its value, 95% interval, n, and numbers of unscored and failed queries."""
        return {summary.metric: summary for summary in self.result.summaries}

    @property
    def passed(self) -> bool:
        """True if every criterion is met and nothing is missing."""
        return self.report.passed and not self.untracked

    @property
    def incomplete(self) -> str:
        """Reasons why something is missing; empty if nothing is."""
        return "; ".join(filter(None, (self.report.incomplete, self.untracked)))

    @property
    def recommended(self) -> RetrieverConfig | None:
        """Settings of the retriever; for a grid those of the recommended cell, None if cells cannot be ranked."""
        swept = self.result.swept
        return None if swept and swept.chosen is None else self.result.config.retriever

    def to_pandas(self) -> "DataFrame":
        """Return a row for each query: query, outcome, reasons, ids of returned chunks, each metric, and more.

        A score that could not be computed is NaN. `report` says why.
        """
        import pandas as pd

        rows = [
            {name: getattr(row, name) for name in OF_A_QUERY}
            | {"retrieved": [hit.chunk_id for hit in row.retrieved]}
            | {name: score if isinstance(score, int | float) else nan for name, score in row.scores.items()}
            for row in self.report.queries
        ]
        return pd.DataFrame(rows).set_index("id")

    def worst(self, n: int = 5) -> "DataFrame":
        """Return the `n` worst of the failed queries as rows of `to_pandas`, the worst first."""
        from evals.report.sections import worst

        return self.to_pandas().loc[[row.id for row in worst(self.report.queries, n)]]

    def save(self, path: str | Path) -> Path:
        """Write the run.

        Args:
            path: A `.json` file for the report, an `.html` file for the page, an `.xml` file for JUnit; or a folder for
                `report.json` and `report.html`.

        Returns:
            The path.

        Raises:
            ConfigError: A file cannot be written.
        """
        target = Path(path)
        kind = {".json": "report", ".html": "html", ".xml": "junit"}.get(target.suffix.lower())
        files = {kind: target} if kind else {"report": target / "report.json", "html": target / "report.html"}
        outputs = Outputs(**files)
        save_report(self.report, outputs.report)
        save_views(self.report, outputs)
        return target


@dataclass(frozen=True, kw_only=True, repr=False)
class Sweep(Evaluation):
    """A finished grid. Its report and figures are those of the recommended cell."""

    @cached_property
    def cells(self) -> "DataFrame":
        """A row for each cell: settings, the mean of every metric, `recommended`, and `in_set` (it may be the best)."""
        import pandas as pd

        from evals.tracking.values import grid_table

        grid = self.report.grid
        assert grid is not None
        frame = pd.DataFrame(grid_table(grid))
        may_be_best = {*grid.choice.may_be_best} if grid.choice else set()
        return frame.assign(
            recommended=[index == grid.chosen for index in range(len(frame))],
            in_set=[index in may_be_best for index in range(len(frame))],
        )
