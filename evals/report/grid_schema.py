"""A grid, as a part of the report's schema. Lists of figures are by cell, in the order of `cells`."""

from typing import Literal

from pydantic import Field

from evals.metrics.base import Scope
from evals.report.abstention_schema import AbstentionSection
from evals.report.choice_schema import ChoiceSection
from evals.report.schema_model import MetricEntry, Section

Setting = str | bool | int | float | None


class RankingSection(Section):
    """The cells by the objective."""

    metrics: dict[str, float] = Field(description="the metrics of the objective with their weights")
    n: dict[str, int] = Field(description="metric to how many queries cells are compared on")
    dropped: dict[str, int] = Field(description="metric to how many queries are scored in some cells and not in all")
    constraints: dict[str, str] = Field(description="metric to what a cell must meet")
    excluded: int = Field(ge=0, description="cells that do not meet them")
    reason: str = Field(description="why cells are not ranked; empty when they are")
    order: list[int] = Field(description="numbers of the cells that meet the constraints, from the best")
    values: list[float | None] = Field(description="value of the objective, by cell")


class ConfigurationEntry(Section):
    """A way to retrieve, for which the search ran once."""

    name: str = Field(description="its settings in a few words")
    parameters: dict[str, Setting] = Field(description="the settings that tell it from the others")
    metrics: dict[str, MetricEntry] = Field(
        description="what belongs to it and not to a cell: latency, determinism, separation"
    )


class CellColumns(Section):
    """The cells, by columns; of more than 10,000 the best."""

    count: int = Field(ge=0, description="how many cells the grid has")
    index: list[int] = Field(description="number of the cell, ascending")
    configuration: list[int] = Field(description="place of its configuration in configurations, from 0")
    top_k: list[int] = Field(description="its cut")
    threshold: list[float | None] = Field(description="its threshold; null where none is in force")


class GridMetric(Section):
    """A metric of every cell."""

    scope: Scope = Field(description="which queries it is over")
    mean: list[float | None] = Field(description="mean over the scored queries, by cell; null where there is none")
    n: int | list[int] = Field(description="scored queries, by cell; one number where all cells have the same")
    n_unscored: int | list[int] = Field(description="queries that could not be scored, likewise")
    n_failed: int | list[int] = Field(description="queries whose score failed, likewise")
    common: list[float | None] | None = Field(
        description="mean over the queries that all cells score, by which they are ranked; null where that is mean"
    )
    n_common: int = Field(ge=0, description="how many queries these are")
    n_dropped: int = Field(ge=0, description="queries that some cells score and others do not")


class GridSection(Section):
    """The grid whose chosen cell a run is. Lists of figures are by cell, in the order of cells."""

    axes: dict[str, list[Setting] | Literal["exact"]] = Field(description="what was swept, with its values")
    chosen: int | None = Field(description="number of the cell that the report is of; null where cells are not ranked")
    choice: ChoiceSection | None = Field(description="the recommendation; null where cells could not be ranked")
    ranking: RankingSection = Field(description="the cells by the objective")
    configurations: list[ConfigurationEntry] = Field(description="each way to retrieve")
    cells: CellColumns = Field(description="the cells, by columns")
    metrics: dict[str, GridMetric] = Field(description="every metric over queries, by name")
    abstention: AbstentionSection | None = Field(
        description="when to return nothing; null where no threshold is in force"
    )
    notes: list[str] = Field(description="combinations that were left out or are one")
