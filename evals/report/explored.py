"""What every cell of a grid returns of every query, and a cell of a saved grid as a run of its own. Pure.

Under one threshold a larger `top_k` only adds to a result, so that the results of all cells are the beginnings of a few
lists a query: which list a threshold leaves, how many of it reach the threshold, and what each beginning is worth.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from evals.collect.observations import Summary
from evals.collect.pool import Floats, Integers
from evals.errors import ReportError
from evals.grid.cells import Grid
from evals.grid.measure import Measured
from evals.metrics import PASS_RATE, VERDICT_METRIC, metric_named
from evals.metrics.declaration import QueryMetric
from evals.metrics.results import Results
from evals.report.model import (
    PREVIEW,
    CellColumns,
    ChunkEntry,
    Explored,
    GridSection,
    Hit,
    QueryRow,
    Report,
    ScoreValue,
)
from evals.stats.bands import mean_bands, share_bands
from retrievers.errors import nearest

# Thresholds × queries × configurations, and chunks of all lists, beyond which the page has no room.
MOST_PLACES, MOST_LISTED = 250_000, 500_000
FOUND, FALSE_ANSWER, FALSE_ABSTENTION = "found", "scope/false_answer", "scope/false_abstention"


def explored(result: Measured) -> Explored | None:
    """Return the results of all cells; None of a run, of cells that are not ranked, and of a grid without room.

    Args:
        result: The measurement.
    """
    if result.swept is None or result.swept.choice is None:
        return None
    grid, weights = result.swept.grid, result.swept.ranking.weights
    metrics = {name: metric for name in weights if isinstance(metric := metric_named(name), QueryMetric)}
    gains = {name: weights[name] for name, metric in metrics.items() if metric.scope == "in_scope"}
    if not any(gains.values()):  # what is found has no part in the choice, and is shown nevertheless
        gains = dict.fromkeys(gains, 1.0)
    size = len(grid.pool.cases) * sum(len(each.thresholds) for each in grid.configurations)
    if not gains or size > MOST_PLACES:
        return None
    results, row_of = grid.laid_out()
    lists, list_of, reach = _lists(grid, results, row_of)
    if sum(map(len, lists)) > MOST_LISTED:
        return None
    rows = _rows(grid, row_of, lists, list_of, reach)
    shares = {name: weight / sum(map(abs, gains.values())) for name, weight in gains.items()}
    parts = [share * metrics[name].values(results, result.context).values for name, share in shares.items()]
    gain = np.append(np.add.reduce(parts), np.nan)
    passes = np.append(PASS_RATE.values(results, result.context).values, np.nan)
    scores, found = np.unique(gain, return_inverse=True)  # NaN is the last
    found = np.where(np.isnan(gain), -1, found)
    codes = sorted({code for each in lists for code in each})
    places = {code: place for place, code in enumerate(codes)}
    means = np.add.reduce([share * grid.metrics[name].common for name, share in shares.items()])
    return Explored(
        metrics=list(gains),
        gain=[None if np.isnan(mean) else mean for mean in means.tolist()],
        bands=dict(_bands(grid, gain, results, row_of, result.config.seed)),
        chunks=dict(_entries(grid, codes)),
        lists=[[places[code] for code in each] for each in lists],
        list_of=[each.tolist() for each in list_of],
        reach=[each.tolist() for each in reach],
        scores=scores[~np.isnan(scores)].tolist(),
        found=[found[each].tolist() for each in rows],
        passes=[np.where(np.isnan(passes[each]), -1, passes[each]).astype(int).tolist() for each in rows],
    )


def _lists(grid: Grid, results: Results, row_of: Integers) -> tuple[list[list[int]], list[Integers], list[Integers]]:
    """Return the lists; by configuration, which of them a threshold leaves of a query, and how many of it reach it."""
    longest, cuts = int(np.argmax(grid.top_ks)), len(grid.top_ks)
    lists, list_of, reach = list[list[int]](), list[Integers](), list[Integers]()
    for number, configuration in enumerate(grid.configurations):
        starts = number * grid.size + np.arange(len(configuration.thresholds)) * cuts + longest
        rows = row_of[starts]
        which = np.zeros_like(rows)
        for query in range(rows.shape[1]):
            own = list[int]()
            for threshold, row in enumerate(rows[:, query].tolist()):
                codes = results.codes[row, : results.lengths[row]].tolist()
                same = next((one for one in own if lists[one][: len(codes)] == codes), None)
                if same is None:
                    same = len(lists)
                    own.append(same)
                    lists.append(codes)
                which[threshold, query] = same
        list_of.append(which)
        reach.append(results.lengths[rows])
    return lists, list_of, reach


def _rows(
    grid: Grid, row_of: Integers, lists: Sequence[Sequence[int]], list_of: Sequence[Integers], reach: Sequence[Integers]
) -> list[Integers]:
    """Return by list, then by how many of it are returned, the row of that result; −1 where no cell returns it."""
    offsets = np.cumsum([0, *(len(each) + 1 for each in lists)])
    row = np.full(offsets[-1], -1)
    cells = row_of.reshape(-1, len(grid.top_ks), row_of.shape[1])
    of_thresholds = np.concatenate(list_of), np.concatenate(reach)
    for cut, top_k in enumerate(grid.top_ks):
        row[offsets[of_thresholds[0]] + np.minimum(of_thresholds[1], top_k)] = cells[:, cut]
    return np.split(row, offsets[1:-1])


def _bands(
    grid: Grid, gain: Floats, results: Results, row_of: Integers, seed: int
) -> Iterator[tuple[str, tuple[list[float], list[float]]]]:
    """Yield the bands of what is found, of wrong silence and of wrong answers, each by cell."""
    inside = np.array([case.in_scope for case in grid.pool.cases], dtype=np.bool_)
    values = gain[row_of[:, inside]].T
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) and values.min() >= 0 and values.max() <= 1:
        numbers = range(len(grid.configurations))
        cells = [slice(number * grid.size, (number + 1) * grid.size) for number in numbers]
        low, high = np.concatenate([mean_bands(values[:, each], seed) for each in cells], axis=1)
        yield FOUND, (low.tolist(), high.tolist())
    silent = (results.lengths == 0)[row_of]
    for name, side in ((FALSE_ABSTENTION, silent[:, inside]), (FALSE_ANSWER, silent[:, ~inside])):
        if side.shape[1]:
            low, high = share_bands(side.sum(axis=1), side.shape[1])
            ends = (low, high) if name == FALSE_ABSTENTION else (1 - high, 1 - low)
            yield name, (ends[0].tolist(), ends[1].tolist())


def _entries(grid: Grid, codes: Sequence[int]) -> Iterator[tuple[str, ChunkEntry]]:
    """Yield the chunks of these codes by their ids, each with the beginning of its text."""
    for code in codes:
        chunk = grid.pool.chunks[code]
        text = " ".join(chunk.text.split())[:PREVIEW]
        yield chunk.chunk_id, ChunkEntry(source=chunk.source, breadcrumb=chunk.breadcrumb, text=text)


def address(grid: GridSection, place: int) -> str:
    """Return the name of a cell in an address, such as `hybrid-weighted-k8-t0.3`; the page has the same.

    Args:
        grid: The grid.
        place: Place of the cell in its columns.
    """
    threshold = grid.cells.threshold[place]
    name = re.sub(r"[^a-z0-9.]+", "-", grid.configurations[grid.cells.configuration[place]].name.lower())
    cut = "" if threshold is None else f"-t{threshold:.12g}"
    return "-".join(filter(None, (name, f"k{grid.cells.top_k[place]}{cut}")))


def cell_report(report: Report, name: str) -> Report:
    """Return the report of one cell of a grid, with the scores that the grid holds by query.

    Args:
        report: The report of the grid.
        name: Its name in an address; the retrieval may be left out where one cell alone has these cuts.

    Raises:
        ReportError: The report holds no results by cell, or has no such cell, or several.
    """
    grid, found = report.grid, report.grid.explored if report.grid else None
    if grid is None or found is None:
        raise ReportError(f"#{name}: the report holds no results by cell; expected one of a grid (--sweep.*)")
    names = [address(grid, place) for place in range(len(grid.cells.index))]
    fitting = [place for place, each in enumerate(names) if name == each] or [
        place for place, each in enumerate(names) if each.endswith(f"-{name}")
    ]
    if len(fitting) != 1:
        several = f"{len(fitting)} cells" if fitting else "no cell"
        near = nearest(name, names) or (
            f"; the first are {', '.join(names[p] for p in fitting[:3])}" if fitting else ""
        )
        raise ReportError(f"#{name}: the grid has {several} of that name; expected one such as {names[0]}{near}")
    [place] = fitting
    number, cut, threshold = (getattr(grid.cells, each)[place] for each in ("configuration", "top_k", "threshold"))
    settings = grid.configurations[number]
    own = {name: value for name, value in settings.parameters.items() if name in report.config["retriever"]}
    retriever = {**report.config["retriever"], **own, "top_k": cut, "threshold": threshold}
    ids, inside = [*found.chunks], [row.in_scope for row in report.queries]
    try:
        results = list(_results(found, grid.cells, number, cut, threshold))
        rows = [
            _row(row, [ids[code] for code in chunks], passes)
            for row, (chunks, _, passes) in zip(report.queries, results, strict=True)
        ]
    except (IndexError, ValueError):
        raise ReportError(f"#{name}: the results by cell do not fit the cells of the report; make it again") from None
    silent = [float(not chunks) for chunks, _, _ in results]
    scores: dict[str, list[ScoreValue | None]] = {
        **({found.metrics[0]: [score for _, score, _ in results]} if len(found.metrics) == 1 else {}),
        "scope/abstention": [None if own else each for own, each in zip(inside, silent, strict=True)],
        "scope/false_abstention": [each if own else None for own, each in zip(inside, silent, strict=True)],
    }
    passed: list[ScoreValue | None] = [None if passes is None else float(passes) for _, _, passes in results]
    whole = dict(report)
    for part in ("grid", "head", "judge", "baseline", "ragas_check", "slices", "proxies", "own_metrics"):
        del whole[part]
    changed = {
        "name": names[place],
        "run": names[place],
        "settings": f"{settings.name} · top_k {cut}" + ("" if threshold is None else f" · threshold {threshold:g}"),
        "config": {**report.config, "retriever": retriever},
        "metrics": {name: _mean(name, column) for name, column in {**scores, VERDICT_METRIC: passed}.items()},
        "headline": list(scores),
        "criteria": (),
        "notes": [],
        "scores": scores,
        "chunks": found.chunks,
        "queries": rows,
    }
    return Report(**{**whole, **changed})


def _results(
    found: Explored, cells: CellColumns, configuration: int, top_k: int, threshold: float | None
) -> Iterator[tuple[list[int], float | None, bool | None]]:
    """Yield what a cell returns of each query, its score, and whether it passes; None where that is not known."""
    own = dict.fromkeys(
        each for number, each in zip(cells.configuration, cells.threshold, strict=True) if number == configuration
    )
    place = [*own].index(threshold)
    for which, reach in zip(found.list_of[configuration][place], found.reach[configuration][place], strict=True):
        length = min(top_k, reach)
        score, passes = found.found[which][length], found.passes[which][length]
        scored, passed = None if score < 0 else found.scores[score], None if passes < 0 else passes == 1
        yield found.lists[which][:length], scored, passed


def _row(row: QueryRow, chunk_ids: Sequence[str], passes: bool | None) -> QueryRow:
    hits = [
        Hit(rank=rank, chunk_id=chunk_id, score=None, grade=row.relevant.get(chunk_id, 0))
        for rank, chunk_id in enumerate(chunk_ids, 1)
    ]
    outcome = "UNLABELLED" if passes is None else "SUCCESS" if passes else "FAILURE"
    unknown = {"metadata_accuracy": None, "content_relevance": None, "accuracy_score": None, "cause": None}
    told = {"retrieved": hits, "best_below_threshold": [], "claims": [], "reasons": [], "outcome": outcome}
    return row.model_copy(update={**told, **unknown})


def _mean(name: str, column: Sequence[ScoreValue | None]) -> Summary:
    known = [float(value) for value in column if isinstance(value, float | int)]
    return Summary(metric=name, value=sum(known) / len(known) if known else None, n=len(known))
