"""A grid and its abstention, as a part of the report. Lists of figures are by cell, in the order of `cells`."""

from pydantic import Field

from evals.metrics.declaration import Scope
from evals.report.model.base import IntervalEntry, MetricEntry, Section, Setting
from evals.report.model.choice import ChoiceSection, DecisionSection
from evals.stats.abstention import Separation


class OperatingEntry(Section):
    """Rates of a threshold."""

    threshold: float = Field(description="the threshold")
    false_answer: float | None = Field(description="share of the out-of-scope queries answered; null without any")
    false_abstention: float | None = Field(description="share of the in-scope queries not answered; null without any")
    recall: float | None = Field(description="mean recall in scope at the cut; null where it is not known")


class Separability(Section):
    """Separation of in-scope from out-of-scope queries by their best scores."""

    in_scope: int = Field(ge=0, description="in-scope queries")
    out_of_scope: int = Field(ge=0, description="out-of-scope queries")
    auroc: float | None = Field(description="area under the ROC curve; null without both kinds of query")
    auroc_interval: IntervalEntry = Field(description="95% interval of the AUROC")
    separation: Separation = Field(description="entire, partial or none: how well a threshold separates the two")
    statement: str = Field(description="the same in a sentence")
    curve: list[OperatingEntry] = Field(description="every observed best score as a threshold, ascending")


class PromiseEntry(Section):
    """A threshold that promises a rate of false answers for questions like these, at 95%."""

    rate: float = Field(description="largest share of such out-of-scope questions that is answered")
    threshold: float | None = Field(description="least threshold that promises it; null where none does")
    at: OperatingEntry | None = Field(description="its rates on these queries; null without one")
    queries: int = Field(ge=1, description="out-of-scope queries that promise the rate if all of them are silent")
    statement: str = Field(description="the same in a sentence")


class AbstentionSection(Section):
    """Abstention under the chosen configuration, at its cut."""

    configuration: str = Field(description="name of the configuration")
    top_k: int = Field(ge=1, description="the cut")
    known: Separability = Field(description="separation of the queries, for any threshold")
    by_threshold: list[OperatingEntry] = Field(description="rates of the thresholds of the grid")
    promised: list[PromiseEntry] = Field(
        description="thresholds that promise objective.wrong_answers; empty without out-of-scope queries"
    )


class RankingSection(Section):
    """The cells by the objective."""

    metrics: dict[str, float] = Field(description="the metrics of the objective with their weights")
    n: dict[str, int] = Field(description="metric to the number of queries that cells are compared on")
    dropped: dict[str, int] = Field(
        description="metric to the number of queries that are scored in some cells and not in all"
    )
    constraints: dict[str, str] = Field(description="metric to the condition that a cell must meet")
    excluded: int = Field(ge=0, description="cells that do not meet them")
    reason: str = Field(description="reason why cells are not ranked; empty when they are")
    order: list[int] = Field(description="numbers of the cells that meet the constraints, from the best")
    values: list[float | None] = Field(description="value of the objective, by cell")

    @property
    def objective(self) -> str:
        """What the cells are ordered by, such as `ranking/mrr_at_5 + 0.5 × ranking/recall_at_5`."""
        return " + ".join(name if weight == 1 else f"{weight:g} × {name}" for name, weight in self.metrics.items())

    @property
    def where(self) -> str:
        """What a cell must meet; empty without constraints."""
        return " and ".join(f"{metric} {condition}" for metric, condition in self.constraints.items())


class ProofSection(Section):
    """What the verdicts that were bought prove (judge.stop), of what all verdicts on these queries would say."""

    statement: str = Field(description="the same in a sentence")
    margin: float = Field(ge=0, description="margin that was asked for")
    cell: int | None = Field(description="number of the cell that it is about; null where cells are not ranked")
    within: float | None = Field(
        description="95% upper bound of how far that cell is below the best, simultaneous over cells and looks; null "
        "where nothing could be compared"
    )
    remaining: int = Field(ge=0, description="number of cells that were not proved worse")
    queries: int = Field(ge=0, description="number of queries that the remaining cells were judged on")
    queries_in_all: int = Field(ge=0, description="number of in-scope queries")
    questions: int = Field(ge=0, description="number of distinct questions to the judge that were asked or stored")
    questions_in_all: int = Field(ge=0, description="number of those about all cells on all queries")
    next_within: float | None = Field(
        description="bound of the best cell that is expected after 100 more questions; null where none are left"
    )


class ConfigurationEntry(Section):
    """A way to retrieve, for which the search ran once."""

    name: str = Field(description="settings in a few words")
    parameters: dict[str, Setting] = Field(description="the settings that tell it from the others")
    thresholds: int = Field(1, ge=1, description="number of thresholds of its cells")
    metrics: dict[str, MetricEntry] = Field(
        description="metrics that belong to it and not to a cell: latency, determinism, separation"
    )


class CellColumns(Section):
    """The cells, by columns; of more than 10,000 the best."""

    count: int = Field(ge=0, description="number of cells of the grid")
    index: list[int] = Field(description="number of the cell, ascending")
    configuration: list[int] = Field(description="place of its configuration in configurations, from 0")
    top_k: list[int] = Field(description="cut of the cell")
    threshold: list[float | None] = Field(description="threshold of the cell; null where none is in force")


class GridMetric(Section):
    """A metric of every cell."""

    scope: Scope = Field(description="kind of queries that it is over")
    mean: list[float | None] = Field(description="mean over the scored queries, by cell; null where there is none")
    n: int | list[int] = Field(description="scored queries, by cell; one number where all cells have the same")
    n_unscored: int | list[int] = Field(description="queries that could not be scored, likewise")
    n_failed: int | list[int] = Field(description="queries whose score failed, likewise")
    common: list[float | None] | None = Field(
        description="mean over the queries that all cells score, by which they are ranked; null where that is mean"
    )
    n_common: int = Field(ge=0, description="number of these queries")
    n_dropped: int = Field(ge=0, description="queries that some cells score and others do not")


class GridSection(Section):
    """The grid whose chosen cell a run is. Lists of figures are by cell, in the order of cells."""

    axes: dict[str, list[Setting]] = Field(description="every axis of the sweep, with its values")
    chosen: int | None = Field(description="number of the cell that the report is of; null where cells are not ranked")
    choice: ChoiceSection | None = Field(description="the recommendation; null where cells could not be ranked")
    decision: DecisionSection | None = Field(
        None, description="the cells to take for what one can bear; null without both kinds of queries"
    )
    ranking: RankingSection = Field(description="the cells by the objective")
    top_k: list[int] = Field([], description="every cut of the grid, ascending")
    configurations: list[ConfigurationEntry] = Field(description="each way to retrieve")
    cells: CellColumns = Field(description="the cells, by columns")
    metrics: dict[str, GridMetric] = Field(description="every metric over queries, by name")
    proof: ProofSection | None = Field(None, description="what is proved; null unless judge.stop has a margin")
    abstention: AbstentionSection | None = Field(description="abstention; null where no threshold is in force")
    notes: list[str] = Field(description="combinations that were left out or are one")
