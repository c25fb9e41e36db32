"""A report in MLflow's terms: parameters, metrics, tags, tables. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evals.collect.observations import SampledMean, Summary
from evals.config.experiment import ExperimentConfig, label
from evals.grid.axes import CELL_AXES, dotted
from evals.grid.cells import pareto_front
from evals.grid.objective import TOKENS
from evals.report.description import description, leading_first, most_telling
from evals.report.model import GridSection, QueryRow, Report
from evals.report.text import claim_lines, verdict_lines
from retrievers.config import dump
from retrievers.config.layers import flatten, tables
from retrievers.terminal.present import score_text

# Most metrics of a run; a grid has up to MOST_ALONG more, along top_k.
MOST_METRICS = 30
MOST_ALONG = 10
# First columns of MLflow's list of runs: metrics that every run has, whatever its top_k.
COLUMNS = ("queries/pass_rate", "scope/false_answer", "ranking/hit_rate_at_1", "ragas/id_context_recall")
DESCRIPTION_TAG = "mlflow.note.content"
USUAL = (
    "retriever.mode",
    "retriever.top_k",
    "retriever.threshold",
    "retriever.rerank",
    "retriever.embedding.model",
)
# Settings that are no parameters: the store of runs, whose address may carry credentials, and what a run demands.
ELSEWHERE = ("tracking.", "criteria", "reference")
# Characters of a parameter that MLflow holds.
MOST_CHARACTERS = 6_000
# Most cells with a run of their own: each costs MLflow 0.04 s of processor time.
MOST_CELLS = 8
# The retrieval of the specifications: without fusion or reranking, five chunks above a cosine of 0.3.
PLAIN = {"mode": "semantic", "rerank": "none", "top_k": 5, "threshold": 0.3, "python": None}
OBJECTIVE = "by_objective"
"""What cells are ranked by, as a metric of each; MLflow's contour plot begins with the first metric by name."""


class CellRun(NamedTuple):
    """A cell as a run: its number, settings and means, and why it is there."""

    cell: int
    name: str
    roles: Sequence[str]
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]


def parameters(report: Report) -> dict[str, str]:
    """Return the usual settings, then those that differ from the defaults, by their dotted names.

    Those of a grid are the recommended cell's, with the axes as `sweep.NAME`. The whole configuration is the artifact
    `settings.yaml`; criteria stand in the run's description.
    """
    flat, defaults = _flat(report.config), _flat(dump(ExperimentConfig.model_validate({})))
    if report.facts.embedding and not flat.get("retriever.embedding.model"):
        flat["retriever.embedding.model"] = report.facts.embedding.partition(":")[2]
    changed = {name: value for name, value in flat.items() if name not in defaults or defaults[name] != value}
    shown = {name: flat[name] for name in USUAL if name in flat}
    shown |= {name: value for name, value in changed.items() if not name.startswith(ELSEWHERE)}
    shown |= {"retriever.class": report.facts.retriever} if report.facts.retriever else {}
    return {name: str(value)[:MOST_CHARACTERS] for name, value in shown.items()}


def metric_values(report: Report) -> dict[str, float]:
    """Return the values of a run's metrics: those that runs are compared by, then those that say most about it.

    MLflow's columns have the order of logging of the newest run. All metrics, exact and with interval and n, are in the
    table of `metrics_table`.
    """
    telling = most_telling(report)
    names = dict.fromkeys((*(name for name in COLUMNS if name in telling), *telling))
    values = ((name, report.metrics[name].value) for name in islice(names, MOST_METRICS))
    return {name: six_digits(value) for name, value in values if value is not None}


def first_values(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the values of a cell: its first two, then those that say most; the grid's table has them all."""
    names = dict.fromkeys((*islice(metrics, 2), *leading_first(metrics)))
    return {name: six_digits(metrics[name]) for name in islice(names, MOST_METRICS)}


def six_digits(value: float) -> float:
    """Return a value as short as MLflow's tables show it whole."""
    return float(f"{value:.6g}")


def tags(report: Report) -> dict[str, str]:
    """Return what runs are filtered by, and the text of the run's page."""
    facts, flat = report.facts, _flat(report.config)
    objective = report.grid.ranking.metrics if report.grid else {}
    tags: dict[str, object] = {
        "mode": facts.retriever if flat.get("retriever.python") else flat.get("retriever.mode"),
        "collection": facts.collection and facts.collection.name,
        "dataset": "/".join(Path(facts.dataset).parts[-2:]),
        "passed": report.passed,
        "role": "grid" if report.grid else "run",
        "objective": " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in objective.items())
        or None,
        "criteria.failed": ", ".join(criterion.metric for criterion in report.criteria if not criterion.passed)
        or "none",
        "judge.model": facts.judge and facts.judge.model,
        "ragas": (report.ragas_check and report.ragas_check.line) or None,
        "code.commit": facts.commit,
        DESCRIPTION_TAG: description(report),
    }
    return {key: str(value) for key, value in tags.items() if value is not None}


def metrics_table(report: Report) -> list[dict[str, Any]]:
    """Return a row a metric: value, interval, n, counts of missing scores, bounds, note, sample."""
    return [_metric_row(metric) for metric in report.metrics.values()]


def queries_table(report: Report) -> list[dict[str, Any]]:
    """Return a row a query, with what was expected and retrieved, and its score by every metric."""
    scored = {name for row in report.queries for name in row.scores}
    names = [name for name in report.metrics if name in scored]
    return [_query_row(row, names, judged=report.judge is not None) for row in report.queries]


def grid_table(grid: GridSection) -> list[dict[str, Any]]:
    """Return a row a cell: its settings and the mean of every metric, or None."""
    settings = [cell_settings(grid, place) for place in range(len(grid.cells.index))]
    names = dict.fromkeys(name for cell in settings for name in cell)
    return [
        {name: cell.get(name) for name in names} | {name: metric.mean[place] for name, metric in grid.metrics.items()}
        for place, cell in enumerate(settings)
    ]


def cell_runs(report: Report) -> list[CellRun]:
    """Return the cells that get a run, in their order: at most `MOST_CELLS`, none where cells are not ranked.

    They are the recommended cell, the best as measured, the plain one of the specifications, and the Pareto front of
    objective and context tokens, thinned evenly but for its ends.
    """
    grid = report.grid
    if grid is None or grid.choice is None:
        return []
    base = dict(flatten(report.config.get("retriever", {})))
    # A parameter that a run lacks counts as differing: every cell has the settings of every way to retrieve.
    names = dict.fromkeys(name for configuration in grid.configurations for name in configuration.parameters)
    common = {name: base.get(dotted(name)) for name in (*names, *PLAIN)} | {"threshold": None}
    every = [common | cell_settings(grid, place) for place in range(len(grid.cells.index))]
    return [_cell_run(grid, place, every[place], names, roles) for place, roles in sorted(_roles(grid, every).items())]


def cell_settings(grid: GridSection, place: int) -> dict[str, Any]:
    """Return what tells a cell from the others: the settings of its configuration, its cut and its threshold."""
    cells = grid.cells
    threshold = {} if cells.threshold[place] is None else {"threshold": cells.threshold[place]}
    return {**grid.configurations[cells.configuration[place]].parameters, "top_k": cells.top_k[place], **threshold}


def along_top_k(grid: GridSection) -> dict[str, Sequence[tuple[int, float]]]:
    """Return the first metrics along `top_k` at the recommended cell's other settings, the objective's first."""
    cells = grid.cells
    if grid.chosen not in cells.index:
        return {}
    others = list(zip(cells.configuration, cells.threshold, strict=True))
    row = [place for place, other in enumerate(others) if other == others[cells.index.index(grid.chosen)]]
    names = [name for name in dict.fromkeys((*grid.ranking.metrics, *grid.metrics)) if name in grid.metrics]
    return {
        name: [(cells.top_k[place], value) for place in row if (value := grid.metrics[name].mean[place]) is not None]
        for name in names[:MOST_ALONG]
    }


def expected_text(row: QueryRow) -> str:
    """Return what a query should get, as text: the answer, then the places that hold it."""
    if not row.in_scope:
        return "nothing: out of scope"
    places = row.expected or sorted(row.relevant, key=lambda chunk_id: -row.relevant[chunk_id])
    return "\n".join(filter(None, (row.reference_answer, *places))) or "not labelled"


def retrieved_text(row: QueryRow) -> str:
    """Return the returned chunks, a line each, with a mark at what is relevant."""
    lines = [
        f"{hit.rank}. {score_text(hit.score)} {'✓' if hit.grade else ' '} {hit.chunk.breadcrumb or hit.source}"
        for hit in row.retrieved
    ]
    return "\n".join(lines) or "nothing"


def _metric_row(metric: Summary) -> dict[str, Any]:
    """Return a metric in columns of plain values; those of a sample are empty where all queries were judged."""
    plain = asdict(metric)
    sampled = plain.pop("sampled") or dict.fromkeys(field.name for field in fields(SampledMean))
    return {**plain, **{f"sampled.{key}": value for key, value in sampled.items()}}


def _query_row(row: QueryRow, names: Sequence[str], *, judged: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "id": row.id,
        "query": row.query,
        "in_scope": row.in_scope,
        "query_type": row.query_type or "",
        "outcome": row.outcome,
        "reasons": "; ".join(row.reasons),
        "expected": expected_text(row),
        "retrieved": "\n".join(f"{hit.rank}. {score_text(hit.score)} {hit.source}" for hit in row.retrieved)
        or "nothing",
        "top_score": row.top_score,
        "time_ms": row.time_ms,
    }
    if judged:
        columns |= {"judge": "\n".join(verdict_lines(row)), "claims": "\n".join(claim_lines(row))}
    scores = {name: row.scores.get(name) for name in names}
    return columns | {name: score if isinstance(score, float | int) else None for name, score in scores.items()}


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    # A user's own keys may not be names of parameters.
    return {key: value for key, value in flatten(settings, unopened=tables(ExperimentConfig)) if value is not None}


def _roles(grid: GridSection, settings: Sequence[Mapping[str, Any]]) -> dict[int, list[str]]:
    """Return why each cell that is worth a run is, by its place."""
    assert grid.choice is not None
    place_of = {cell: place for place, cell in enumerate(grid.cells.index)}
    roles: dict[int, list[str]] = {place_of[grid.choice.recommended.cell]: ["recommended"]}
    roles.setdefault(place_of[grid.choice.best.cell], []).append("best as measured")
    plain = (place for place, one in enumerate(settings) if all(one[name] == value for name, value in PLAIN.items()))
    for place in [*plain][:1]:
        roles.setdefault(place, []).append("plain semantic")
    allowed = np.full(len(settings), np.nan)
    order = [place_of[cell] for cell in grid.ranking.order]
    allowed[order] = np.array(grid.ranking.values, dtype=float)[order]  # None becomes NaN
    front = pareto_front(allowed, np.array(grid.metrics[TOKENS].mean, dtype=float))
    thinned = np.linspace(0, len(front) - 1, min(len(front), MOST_CELLS - len(roles))).round().astype(int)
    for place in dict.fromkeys(front[each] for each in thinned.tolist()):
        roles.setdefault(place, []).append("Pareto front")
    return roles


def _cell_run(
    grid: GridSection, place: int, settings: Mapping[str, Any], names: Mapping[str, Any], roles: Sequence[str]
) -> CellRun:
    # MLflow's comparison draws the first three parameters by name that differ: the cuts come before all others.
    cuts = {f"cell.{name}": settings[name] for name in CELL_AXES if settings[name] is not None}
    others = {f"retriever.{dotted(name)}": settings[name] for name in names if name not in CELL_AXES}
    values = grid.ranking.values[place]
    means = {name: metric.mean[place] for name, metric in grid.metrics.items()}
    first = {name: means[name] for name in grid.ranking.metrics} if len(grid.ranking.metrics) == 1 else {}
    variant = grid.configurations[grid.cells.configuration[place]].name.split()
    rest = [word for word in variant if word not in (settings["mode"], settings["rerank"])]
    which, star = settings["python"] or settings["mode"], "★ " if "recommended" in roles else ""
    name = label(which, settings["rerank"], settings["top_k"], settings["threshold"])
    return CellRun(
        cell=grid.cells.index[place],
        name=" ".join((f"{star}{name}", *rest)),
        roles=roles,
        parameters=cuts | others,
        metrics={key: mean for key, mean in {**first, OBJECTIVE: values, **means}.items() if mean is not None},
    )
