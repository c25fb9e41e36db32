"""From a grid to its section of the report: cells by columns, the choice, and the result of each cell and query. Pure.

Under one threshold a larger `top_k` only adds chunks to a result. So the results of all cells are beginnings of a few
lists for each query. The section has the list that each threshold leaves, and the score of each beginning of a list.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from evals.grid.cells import Grid
from evals.grid.choice import explain
from evals.grid.decision import FALSE_ANSWER
from evals.grid.judging import CellProof
from evals.grid.measure import Measured, Swept
from evals.grid.objective import FALSE_ABSTENTION, range_of
from evals.metrics import PASS_RATE, metric_named
from evals.metrics.declaration import QueryMetric
from evals.metrics.outcomes import or_none
from evals.report.model import (
    CellColumns,
    ChunkEntry,
    ConfigurationEntry,
    GridMetric,
    GridSection,
    RankingSection,
    ResultsByCell,
    preview,
)
from evals.report.parsing import FOUND
from evals.stats.abstention import Promise
from evals.stats.bands import mean_bands, share_bands
from evals.stats.intervals import Bools, Floats, Integers

# Most results (thresholds of all variants × queries) for which the page has room.
MOST_PLACES = 250_000


def grid_section(result: Swept, results: ResultsByCell | None) -> GridSection:
    """Return the section of a grid: axes, configurations, cells, every metric by cell, and the recommendation."""
    grid, ranking, choice, decision = result.grid, result.ranking, result.choice, result.decision
    configurations, top_ks, thresholds = zip(*map(grid.cell, range(len(grid))), strict=True)
    out_of_scope = sum(not case.in_scope for case in grid.pool.cases)
    promise = " · ".join(_promise_text(promise, out_of_scope) for promise in result.promised)
    ranked = {"values": or_none(ranking.values), "excluded": int((~ranking.allowed).sum())}
    return GridSection(
        axes={name: list(values) for name, values in grid.plan.axes.items()},
        ranking=RankingSection.of(vars(ranking) | ranked),
        choice=choice,
        decision=replace(decision, promise=promise) if choice and decision else None,
        results=results,
        held_out=result.held_out if choice else None,
        proof=_proof(result, result.proof) if result.proof else "",
        explanation=list(_explanation(result)),
        signals=result.signals,
        configurations=[
            ConfigurationEntry.of(vars(variant) | {"metrics": {summary.metric: summary for summary in summaries}})
            for variant, summaries in zip(grid.variants, grid.summaries, strict=True)
        ],
        cells=CellColumns(configuration=[*configurations], top_k=[*top_ks], threshold=[*thresholds]),
        metrics={
            name: GridMetric(mean=or_none(scores.mean), n=_counts(scores.n), n_failed=_counts(scores.n_failed))
            for name, scores in grid.metrics.items()
        },
    )


def results_by_cell(result: Measured) -> ResultsByCell | None:
    """Return the results of all cells; None for a single run, if cells are not ranked, and if the grid is too large."""
    if result.swept is None or result.swept.choice is None:
        return None
    grid, shares = result.swept.grid, _shares(result.swept.ranking.weights)
    thresholds = sum(len(variant.thresholds) for variant in grid.variants)
    if not shares or len(grid.pool.cases) * thresholds > MOST_PLACES:
        return None
    results, row_of = grid.laid_out()
    longest, list_of, beginnings = _lists(
        row_of.reshape(thresholds, len(grid.top_ks), -1), results.lengths, grid.top_ks
    )
    lengths = results.lengths[longest]
    # NaN is appended for row −1, which stands for a beginning that no cell returns.
    gains = [share * metric.values(results, result.context).values for metric, share in shares]
    gain = np.append(np.add.reduce(gains), np.nan)
    passes = np.append(PASS_RATE.values(results, result.context).values, np.nan)
    scores, score_of = np.unique(gain, return_inverse=True)
    score_of, passes = np.where(np.isnan(gain), -1, score_of), np.where(np.isnan(passes), -1, passes).astype(int)
    ids = grid.pool.identity[results.codes]  # one code for all chunks of an id, since the page knows chunks by id
    lists = [ids[row, :length] for row, length in zip(longest.tolist(), lengths.tolist(), strict=True)]
    codes = np.unique(np.concatenate(lists))
    chunks = [grid.pool.chunks[code] for code in codes.tolist()]
    return ResultsByCell(
        metrics=[metric.name for metric, _ in shares],
        gain=or_none(np.add.reduce([share * grid.metrics[metric.name].common for metric, share in shares])),
        bands=dict(_bands(grid, gain[row_of], results.lengths[row_of] == 0, result.config.seed)),
        chunks={
            chunk.chunk_id: ChunkEntry(source=chunk.source, breadcrumb=chunk.breadcrumb, text=preview(chunk.text))
            for chunk in chunks
        },
        lists=[np.searchsorted(codes, row).tolist() for row in lists],
        list_of=[of_variant.tolist() for of_variant in np.split(list_of, len(grid.variants))],
        scores=scores[~np.isnan(scores)].tolist(),
        found=[score_of[rows].tolist() for rows in beginnings],
        passes=[passes[rows].tolist() for rows in beginnings],
    )


def _shares(weights: Mapping[str, float]) -> list[tuple[QueryMetric, float]]:
    """Return the in-scope metrics of the objective with their shares; equal shares if all weights are 0."""
    metrics = [m for m in map(metric_named, weights) if isinstance(m, QueryMetric) and m.scope == "in_scope"]
    total = sum(abs(weights[metric.name]) for metric in metrics)
    return [(metric, weights[metric.name] / total if total else 1 / len(metrics)) for metric in metrics]


def _lists(row_of: Integers, lengths: Integers, top_ks: Sequence[int]) -> tuple[Integers, Integers, list[Integers]]:
    """Return the longest result for each threshold and query, each once. Cells return beginnings of these lists.

    Args:
        row_of: [thresholds of all configurations, top_ks, queries], the row of each cell's result.
        lengths: [rows], the number of chunks of each result.
        top_ks: The cuts.

    Returns:
        The rows of the lists; the list of each threshold and query; and for each list, by number of chunks, the row of
        the beginning with so many chunks, or −1 if no cell returns it.
    """
    longest, list_of = np.unique(row_of[:, int(np.argmax(top_ks))], return_inverse=True)
    list_of = list_of.reshape(row_of[:, 0].shape)
    starts = np.cumsum([0, *(lengths[longest] + 1)])
    rows = np.full(starts[-1], -1)
    for place, top_k in enumerate(top_ks):
        rows[starts[list_of] + np.minimum(lengths[longest][list_of], top_k)] = row_of[:, place]
    return longest, list_of, np.split(rows, starts[1:-1])


def _counts(values: Integers) -> int | list[int]:
    """Return the numbers by cell; one number if it is the same for all cells."""
    counts: list[int] = values.tolist()
    return counts[0] if len(set(counts)) == 1 else counts


def cut(top_k: int, threshold: float | None) -> str:
    """Return the cuts of a cell, such as `k10 t0.3`."""
    return f"k{top_k}" + ("" if threshold is None else f" t{threshold:g}")


def _promise_text(promise: Promise, queries: int) -> str:
    """Return a promise in words.

    Args:
        promise: Largest rate of wrong answers, and the threshold that keeps to it, if there is one.
        queries: Number of out-of-scope queries.
    """
    rate = f"at most {100 * promise.rate:.3g}%"
    if promise.threshold is None:
        return f"{rate} takes {promise.queries} out-of-scope queries" if queries < promise.queries else f"{rate} none"
    silent = "" if promise.silent is None else f" ({promise.silent:.0%} silent)"
    return f"{rate} t{promise.threshold:g}{silent}"


def _explanation(result: Swept) -> Iterator[str]:
    """Yield the choice and the held-out figure in sentences; or why no cell was chosen."""
    if result.choice is None:
        yield f"The cells are not ranked: {result.ranking.reason}"
        return
    is_told = result.decision is not None
    yield from explain(result.choice, lambda c: range_of(result.grid, [c]), result.proof, is_set_told=is_told)
    if held_out := result.held_out:
        ends = "" if (low := held_out.interval.low) is None else f" ({low:.3f} … {held_out.interval.high:.3f})"
        judged = "" if held_out.judged is None else f", {held_out.judged} of them judged,"
        others = f"{held_out.n} queries{judged} that had no part in the choice"
        yield f"Held out: objective {held_out.value:.3f}{ends} on {others} ({held_out.chosen_on:.3f} on those that had)"


def _proof(result: Swept, proof: CellProof) -> str:
    """Return in a sentence what the bought verdicts prove about all verdicts on these queries."""
    # A bound on any cell that scored the same on every query holds for the chosen one.
    members = list(result.choice.recommended.members) if result.choice else []
    bound = min((bound for bound in proof.within[members].tolist() if isfinite(bound)), default=None)
    if bound is None or result.chosen is None:
        failed = f"{proof.failed:,} verdicts failed" if proof.failed else ""
        reason = proof.stopped or failed or "too few queries were judged"
        outcome, failures = f"Not proved: the {len(result.grid):,} cells cannot be compared, as {reason}", ""
    else:
        proved = "Proved" if bound <= proof.margin else f"Not proved within {proof.margin:g}"
        cells = f"{len(result.grid):,} cells by all verdicts of {proof.judge}, asked once, on these queries (95%)"
        below = f" at most {bound:.3f} below" if bound else ""
        outcome = f"{proved}: {range_of(result.grid, [result.chosen])} is{below} the best of {cells}"
        failures = f"; {proof.failed:,} that failed count as what the proxy lets expect" if proof.failed else ""
    share = proof.verdicts / max(1, proof.all_questions)
    return f"{outcome}, with {proof.verdicts:,} of {proof.all_questions:,} verdicts ({share:.0%}){failures}"


def _bands(
    grid: Grid, gain: Floats, is_silent: Bools, seed: int
) -> Iterator[tuple[str, tuple[list[float], list[float]]]]:
    """Yield the name and the band by cell of found answers, false abstention and false answers.

    Args:
        grid: The cells.
        gain: [cells, queries], the share of the answer that is found, NaN if it is not scored.
        is_silent: [cells, queries], True where nothing is returned.
        seed: Seed of the bands.
    """
    in_scope = np.array([case.in_scope for case in grid.pool.cases], dtype=np.bool_)
    values = gain[:, in_scope].T
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) and values.min() >= 0 and values.max() <= 1:
        of_variants = np.split(values, len(grid.variants), axis=1)
        low, high = np.concatenate([mean_bands(cells, seed) for cells in of_variants], axis=1)
        yield FOUND, (low.tolist(), high.tolist())
    for name, silent in ((FALSE_ABSTENTION, is_silent[:, in_scope]), (FALSE_ANSWER, is_silent[:, ~in_scope])):
        if silent.shape[1]:
            low, high = share_bands(silent.sum(axis=1), silent.shape[1])
            ends = (low, high) if name == FALSE_ABSTENTION else (1 - high, 1 - low)
            yield name, (ends[0].tolist(), ends[1].tolist())
