"""A report as values for MLflow: parameters, metrics, tags and tables. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evals.comparison.sections import Comparison
from evals.config.experiment import ExperimentConfig
from evals.grid.axes import CELL_AXES
from evals.grid.objective import TOKENS
from evals.report.head import ranked
from evals.report.model import GridSection, QueryRow, Report, preview
from evals.report.sections import rank_and_score, verdict_lines
from evals.report.terminal import description
from retrievers.config import dump
from retrievers.config.layers import flatten, tables

# Most metrics of a run.
MOST_METRICS = 30
# First columns in MLflow's list of runs: metrics that every run has, whatever its top_k.
COLUMNS = ("queries/pass_rate", "scope/false_answer", "ranking/hit_rate_at_1", "ragas/id_context_recall", TOKENS)
# Settings that every run has as parameters.
OF_SEARCH = ("mode", "top_k", "threshold", "fusion", "semantic_weight", "rerank", "candidates", "embedding.model")
USUAL = (*(f"retriever.{name}" for name in OF_SEARCH), "dataset.split")
# Settings that are no parameters: the store of runs, whose address may have credentials, and the criteria.
ELSEWHERE = ("tracking.", "criteria")
# Most characters of a parameter in MLflow.
MOST_CHARACTERS = 6_000
# Most cells with a run of their own.
MOST_CELLS = 24
# Most ways to retrieve among these cells, and most thresholds of the recommended way.
MOST_WAYS = 8
MOST_THRESHOLDS = 5
# Metric of a cell: its value of the objective. MLflow's contour plot begins with the first metric by name.
OBJECTIVE = "by_objective"
# Curves along the threshold and along top_k, besides that of the objective, with their metrics.
CURVES = {"wrongly_answered": "scope/false_answer", "wrongly_silent": "scope/false_abstention", "tokens": TOKENS}
# MLflow's name for each field of a difference.
DIFFERENCE = {"diff": "difference", "ci_low": "low", "ci_high": "high", "p_value": "p", "n_paired": "n"}
# Fields of a query that its row in the table has.
OF_A_QUERY = ("id", "query", "in_scope", "query_type", "outcome", "top_score", "time_ms")
# A metric, the step of its curve (0 where it has none), and its value.
Figure = tuple[str, int, float]


class CellRun(NamedTuple):
    """A cell as a run: its number, settings and means. The name of the recommended cell begins with a star."""

    cell: int
    name: str
    parameters: Mapping[str, Any]
    figures: list[Figure]


def parameters(report: Report) -> dict[str, str]:
    """Return the usual settings, then the settings that differ from the defaults, by dotted name.

    A grid has the settings of its recommended cell, and its axes as `sweep.NAME`. All settings are in the artifact
    `settings.yaml`, and the criteria are in the description of the run.
    """
    flat, defaults = _flat(report.config), _flat(dump(ExperimentConfig.model_validate({})))
    if report.facts.embedding and not flat.get("retriever.embedding.model"):
        flat["retriever.embedding.model"] = report.facts.embedding.partition(":")[2]
    settings = {name: flat[name] for name in USUAL if name in flat}
    settings |= {k: v for k, v in flat.items() if defaults.get(k) != v and not k.startswith(ELSEWHERE)}
    settings |= {"retriever.class": report.facts.retriever} if report.facts.retriever else {}
    return {name: str(value)[:MOST_CHARACTERS] for name, value in settings.items()}


def metric_values(report: Report) -> dict[str, float]:
    """Return the values of a run's metrics: those of `COLUMNS`, then the most important ones.

    MLflow's columns have the order in which the newest run logged its metrics. `metrics_table` has all metrics, with
    intervals and n.
    """
    values = {name: metric.value for name, metric in report.metrics.items() if metric.value is not None}
    important = ranked(values, (*(gate.metric for gate in report.criteria), *report.headline))
    names = dict.fromkeys((*(name for name in COLUMNS if name in values), *important))
    return {name: values[name] for name in islice(names, MOST_METRICS)}


def curves(report: Report) -> Iterator[Figure]:
    """Yield the curves of a grid through its recommended cell, along the threshold and along `top_k`.

    A step is a `top_k`, or a threshold in thousandths. There are no curves without a grid, or if cells are not ranked.
    """
    grid = report.grid
    if grid is None or grid.chosen is None:
        return
    cells = list(zip(grid.cells.configuration, grid.cells.top_k, grid.cells.threshold, strict=True))
    way, top_k, threshold = cells[grid.chosen]
    steps = {
        "top_k": {n: k for n, (w, k, t) in enumerate(cells) if (w, t) == (way, threshold)},
        "threshold": {n: round(1_000 * (t or 0)) for n, (w, k, t) in enumerate(cells) if (w, k) == (way, top_k)},
    }
    columns = {name: grid.metrics[metric].mean for name, metric in CURVES.items() if metric in grid.metrics}
    columns |= {"found": grid.results.gain} if grid.results else {}
    columns["objective"] = grid.ranking.values
    for axis, along in steps.items():
        for name, means in columns.items() if len(along) > 1 else ():
            points = ((step, means[n]) for n, step in along.items())
            yield from ((f"curve_by_{axis}/{name}", step, mean) for step, mean in points if mean is not None)


def tags(report: Report) -> dict[str, str]:
    """Return the tags by which runs are filtered, and the text of the run's page."""
    facts, flat = report.facts, _flat(report.config)
    failed = [criterion.metric for criterion in report.criteria if not criterion.passed]
    names = ("metrics", "queries", *(["grid"] if report.grid else []))
    tags: dict[str, object] = {
        "mode": facts.retriever if flat.get("retriever.python") else flat.get("retriever.mode"),
        "collection": facts.collection and facts.collection.name,
        "dataset": "/".join(Path(facts.dataset).parts[-2:]),
        "passed": report.passed if report.criteria or report.incomplete else "no criteria",
        "role": "grid" if report.grid else "run",
        "objective": report.grid and report.grid.ranking.objective,
        "criteria.failed": ", ".join(failed) or report.incomplete or "none",
        "judge.model": facts.judge and facts.judge.model,
        "ragas": (report.ragas_check and report.ragas_check.line) or None,
        "code.commit": facts.commit,
        "mlflow.note.content": description(report),
        "mlflow.loggedArtifacts": json.dumps([{"path": f"tables/{name}.json", "type": "table"} for name in names]),
    }
    return {key: str(value) for key, value in tags.items() if value is not None}


def compared_figures(comparison: Comparison, key: str) -> Iterator[Figure]:
    """Yield the paired differences below a key, by the names of MLflow's own comparison."""
    for entry in comparison.differences:
        for name, field in DIFFERENCE.items() if entry.n else ():
            if (value := getattr(entry, field)) is not None:
                yield f"{key}/{entry.metric}/{name}", 0, value


def metrics_table(report: Report) -> list[dict[str, Any]]:
    """Return a row for each metric: value, interval, n, numbers of missing scores, bounds, note, and sample."""
    rows = [dict(flatten(asdict(metric))) for metric in report.metrics.values()]
    names = dict.fromkeys(name for row in rows for name in row if name != "sampled")
    return [{name: row.get(name) for name in names} for row in rows]


def queries_table(report: Report) -> list[dict[str, Any]]:
    """Return a row for each query: what was expected and retrieved, and its score by every metric."""
    names, rows = [name for name in report.metrics if name in report.scores], []
    for row in report.queries:
        claims = [f"{'' if c.attributed else 'not '}supported: {c.statement} ({c.reason})" for c in row.claims]
        judged = {"judge": "\n".join(verdict_lines(row)), "claims": "\n".join(claims)} if report.judge else {}
        texts = {"reasons": "; ".join(row.reasons), "expected": expected_text(row), "retrieved": retrieved_text(row)}
        scores = {name: score if isinstance(score := row.scores.get(name), float | int) else None for name in names}
        rows.append({name: getattr(row, name) for name in OF_A_QUERY} | texts | judged | scores)
    return rows


def grid_table(grid: GridSection) -> list[dict[str, Any]]:
    """Return a row for each cell: its settings, and the mean of every metric or None."""
    settings = [cell_settings(grid, place) for place in range(len(grid.cells))]
    names = dict.fromkeys(name for cell in settings for name in cell)
    return [
        {name: cell.get(name) for name in names} | {name: metric.mean[place] for name, metric in grid.metrics.items()}
        for place, cell in enumerate(settings)
    ]


def cell_settings(grid: GridSection, place: int) -> dict[str, Any]:
    """Return the settings in which cells differ: those of the configuration, the cut and the threshold."""
    top_k, threshold = grid.cells.top_k[place], grid.cells.threshold[place]
    cuts = {"top_k": top_k} if threshold is None else {"top_k": top_k, "threshold": threshold}
    return grid.configuration_of(place).parameters | cuts


def cell_runs(report: Report) -> list[CellRun]:
    """Return the cells that get a run, in their order: at most `MOST_CELLS`, and none if cells are not ranked.

    These are the recommended cell, the best cell as measured, and the best cell of each way to retrieve; and cells that
    lie evenly over thresholds and top_k of the recommended way, so that MLflow's plots show the shape of the grid.
    """
    grid = report.grid
    if grid is None or grid.choice is None:
        return []
    cells, chosen, best = grid.cells, grid.choice.recommended.cell, grid.choice.best.cell
    way = cells.configuration[chosen]
    order, values = grid.ranking.order, grid.ranking.values
    by_value = sorted(range(len(values)), key=lambda place: -(values[place] or 0.0))
    # Of a way whose cells all miss a constraint, the best of these, if there is room.
    firsts = {cells.configuration[cell]: cell for cell in reversed((*order, *by_value))}
    ranked = sorted(firsts.values(), key=lambda place: (place not in order, -(values[place] or 0.0)))[:MOST_WAYS]
    inside = [place for place, configuration in enumerate(cells.configuration) if configuration == way]
    cuts = _evenly((cells.threshold[place] for place in inside), MOST_THRESHOLDS)
    room = MOST_CELLS - 2 - len(ranked)
    top_ks = _evenly((cells.top_k[place] for place in inside), room // len(cuts))
    shape = [place for place in inside if cells.threshold[place] in cuts and cells.top_k[place] in top_ks]
    return [_cell_run(report, grid, place) for place in sorted({chosen, best, *ranked, *shape})]


def expected_text(row: QueryRow) -> str:
    """Return as text what a query should get: the reference answer, then the places that hold it."""
    if not row.in_scope:
        return "nothing: out of scope"
    places = row.expected or sorted(row.relevant, key=lambda chunk_id: -row.relevant[chunk_id])
    return "\n".join(filter(None, (row.reference_answer, *places))) or "not labelled"


def retrieved_text(row: QueryRow) -> str:
    """Return a line for each returned chunk, with its place, or its text if none is known. Relevant ones are marked."""
    lines = (
        rank_and_score(hit, scaled=False)
        + (hit.chunk.source if hit.chunk.source != hit.chunk_id else preview(hit.chunk.text))
        for hit in row.retrieved
    )
    return "\n".join(lines) or "nothing"


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    # Tables whose keys the user chooses stay whole: a key may be no valid name of a parameter.
    return {key: value for key, value in flatten(settings, unopened=tables(ExperimentConfig)) if value is not None}


def _evenly(values: Iterable[Any], most: int) -> list[Any]:
    """Return at most `most` distinct values in order, evenly spread. None comes first."""
    distinct = sorted({*values}, key=lambda value: -1 if value is None else value)
    return [distinct[i] for i in np.linspace(0, len(distinct) - 1, min(len(distinct), most)).round().astype(int)]


def _cell_run(report: Report, grid: GridSection, place: int) -> CellRun:
    # Each cell has the settings of every way to retrieve, since MLflow takes a missing parameter for a difference.
    names = dict.fromkeys(name for configuration in grid.configurations for name in configuration.parameters)
    base, of_cell = dict(flatten(report.config.get("retriever", {}))), cell_settings(grid, place)
    settings = {name: of_cell.get(name, base.get(name)) for name in names if name not in CELL_AXES}
    # MLflow's comparison draws the first three differing parameters by name. By these names the cuts come first.
    cuts = {f"cell.{name}": of_cell[name] for name in CELL_AXES if name in of_cell}
    means = {OBJECTIVE: grid.ranking.values[place]} | {name: m.mean[place] for name, m in grid.metrics.items()}
    values = {name: mean for name, mean in means.items() if mean is not None}
    wanted = dict.fromkeys((OBJECTIVE, *grid.ranking.metrics, TOKENS, *ranked(values)))
    first = [name for name in wanted if name in values]
    return CellRun(
        cell=place,
        name=f"{'★ ' if place == grid.chosen else ''}{grid.addresses[place]}",
        parameters=cuts | {f"retriever.{name}": value for name, value in settings.items()},
        figures=[(name, 0, values[name]) for name in first[:MOST_METRICS]],
    )
