"""What the figures of the page show, as columns out of the report, for the scripts that draw them. Pure."""

from collections.abc import Mapping
from math import isclose
from typing import Any

from evals.grid.decision import ABSTENTION, ANY
from evals.grid.objective import TOKENS
from evals.metrics import VERDICT_METRIC, declared
from evals.metrics.declaration import DIGITS
from evals.report.grid_sections import columns
from evals.report.model import GridSection, Report, ResultsByCell
from evals.stats.intervals import SAME

Columns = Mapping[str, Any]
# Metrics of a cell that are drawn beside those of the table of cells.
JUDGED = ("ragas/llm_context_precision", "ragas/llm_context_recall")
SIDES = ("scope/false_answer", "scope/false_abstention", TOKENS, VERDICT_METRIC)


def figure_data(report: Report) -> dict[str, Any]:
    """Return the data of each figure of a report; None for a figure without data."""
    grid, drawn = report.grid, cells(report.grid) if report.grid else None
    if grid and drawn:
        drawn = {**drawn, "explored": explored(report, grid, grid.results) if grid.results else None}
    return {"grid": drawn, "scores": best_scores(report), "ranks": first_ranks(report)}


def explored(report: Report, grid: GridSection, results: ResultsByCell) -> Columns:
    """Return what it takes to compare cells query by query; queries, chunks and cells are named by their places."""
    places, decision = {chunk_id: place for place, chunk_id in enumerate(results.chunks)}, grid.decision
    limited = [level for level in (decision.levels if decision else ()) if level.limit < ANY]
    return {
        **results.model_dump(exclude={"chunks", "metrics"}),
        "addresses": grid.addresses,
        "weight": decision.weight if decision and _is_utility(grid) else None,
        # Of a price that is part of the utility there is no band.
        "has_band": grid.ranking.metrics.keys() <= {*results.metrics, ABSTENTION},
        "levels": [(level.cell, f"≤ {100 * level.limit:.3g}%") for level in limited if level.cell is not None],
        "chunks": [(chunk.source, chunk.breadcrumb, chunk.text) for chunk in results.chunks.values()],
        "queries": [
            {
                **{"id": row.id, "query": row.query, "in_scope": row.in_scope},
                **{"type": row.query_type, "tags": row.tags},
                "relevant": [places[chunk_id] for chunk_id in row.relevant if chunk_id in places],
            }
            for row in report.queries
        ],
    }


def cells(grid: GridSection) -> Columns | None:
    """Return the cells of a grid; None where they are not ranked."""
    choice = grid.choice
    if choice is None:
        return None
    standings = [(cell, standing) for standing in choice.standings for cell in standing.members]
    names = [name for name in dict.fromkeys((*columns(grid), *JUDGED, *SIDES)) if name in grid.metrics]
    means = {grid.ranking.objective: grid.ranking.values} | {name: grid.metrics[name].mean for name in names}
    metrics = [_metric(name) | {"values": list(values)} for name, values in means.items()]
    if _is_utility(grid):
        metrics[0]["name"] = "utility"
    return {
        **{name: getattr(grid.cells, name) for name in ("configuration", "top_k", "threshold")},
        "configurations": [configuration.name for configuration in grid.configurations],
        "metrics": metrics,
        "cost": TOKENS,
        "recommended": choice.recommended.cell,
        "best": choice.standings[0].cell,
        "may_be_best": sorted(cell for cell, standing in standings if standing.in_set and not choice.note),
        "allowed": sorted(grid.ranking.order),
        "intervals": {cell: [standing.low, standing.high] for cell, standing in standings},
    }


def _is_utility(grid: GridSection) -> bool:
    """Return True for an objective whose weights of both kinds of query add up to 1."""
    if not grid.decision or len(grid.axes.get("threshold", ())) < 2:
        return False
    weights, weight = grid.ranking.metrics, grid.decision.weight
    found = sum(abs(weights.get(name, 0.0)) for name in (grid.results.metrics if grid.results else ()))
    return isclose(weights.get(ABSTENTION, 0.0), weight, abs_tol=SAME) and (
        not grid.results or isclose(found, 1 - weight, abs_tol=SAME)
    )


def best_scores(report: Report) -> Columns | None:
    """Return the best score of every query before the threshold; None for a retriever without scores of vectors."""
    settings, collection = report.config["retriever"], report.facts.collection
    compared_by = collection.content.get("distance") if collection else None
    on_cosine = settings.get("threshold_on") != "final" and settings.get("threshold_signal", "cosine") == "cosine"
    scores = [(row.in_scope, row.top_score) for row in report.queries if row.top_score is not None]
    if not scores or any(row.top_score is None and row.retrieved for row in report.queries):
        return None
    return {
        "scale": "dot product" if compared_by == "dot" else "cosine similarity",
        # A threshold on another score has another scale.
        "threshold": settings.get("threshold") if on_cosine else None,
        "in_scope": [score for in_scope, score in scores if in_scope],
        "out_of_scope": [score for in_scope, score in scores if not in_scope],
    }


def first_ranks(report: Report) -> Columns | None:
    """Return the rank of the first relevant candidate of every labelled query, before threshold and cut."""
    settings = report.config["retriever"]
    ranks = [row.first_relevant for row in report.queries if row.in_scope and (row.relevant or row.missing)]
    return {"ranks": ranks, "top_k": settings["top_k"], "depth": settings["candidates"]} if ranks else None


def _metric(name: str) -> dict[str, Any]:
    declaration = declared(name)
    lower = declaration.direction == "lower" or name == TOKENS
    return {"name": name, "digits": DIGITS.get(declaration.unit, 3), "lower": lower}
