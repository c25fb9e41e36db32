"""A comparison as it is shown, in sections, and as JSON, whose fields docs/compare.md describes. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import takewhile, zip_longest
from typing import Any

from evals.comparison.differences import WHOLE_RUN
from evals.comparison.records import Comparison, Mismatch, Moved, Regression, Run, SettingChange
from evals.report.model import Difference, Hit, QueryRow
from evals.report.section import Cell, Column, Line, Section, line, terminal
from evals.report.sections import difference
from evals.report.text import figure, rank_and_score, signed

SCHEMA_VERSION = 1
HITS = 5
COLUMNS = (
    Column("metric"),
    Column("baseline", is_number=True),
    Column("other", is_number=True),
    Column("difference", is_number=True),
    Column("95% interval", is_number=True, is_needed=False),
    Column("p", is_number=True, is_needed=False),
    Column("Holm", is_number=True, is_needed=False),
    Column("win/tie/loss", is_number=True, is_needed=False),
    Column("n", is_number=True, is_needed=False),
    Column(""),
)
NOTHING = {"", "–"}


def render(comparisons: Sequence[Comparison], *, width: int, color: bool, queries: int, whole: bool = False) -> str:
    """Return the comparisons with one baseline, for a terminal of that width.

    Args:
        comparisons: At least one.
        width: Columns.
        color: Use colors.
        queries: Number of moved queries to show for each run.
        whole: Shorten nothing, as no terminal shows it; only sentences are wrapped.
    """
    sections: list[Section] = []
    for comparison in comparisons:
        sections += [Section(lines=[line("")])] if sections else []
        sections += [*head(comparison), _beside(comparison, tested(comparisons)), *_moved(comparison, queries)]
        sections += _regressions(comparison.regressions)
    return terminal(sections, width=width, color=color, whole=whole)


def render_head(comparison: Comparison, *, width: int, color: bool) -> str:
    """Return head and table of a comparison."""
    return terminal(head(comparison), width=width, color=color, whole=True)


def document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return all comparisons with one baseline as plain JSON values, without rounding.

    Args:
        comparisons: At least one.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": all(item.passed for comparison in comparisons for item in comparison.regressions),
        "baseline": _run(comparisons[0].baseline),
        "tested": tested(comparisons),
        "comparisons": [_comparison(item) for item in comparisons],
    }


def tested(comparisons: Sequence[Comparison]) -> int:
    """Return the number of p values that were adjusted together."""
    return sum(item.paired is not None for comparison in comparisons for item in comparison.differences)


def head(comparison: Comparison) -> Iterator[Section]:
    """Yield both runs, what differs besides the scores, and the table of metrics."""
    lines = []
    for role, run in (("baseline", comparison.baseline), ("other   ", comparison.other)):
        facts = run.report.facts
        about = f"  {facts.cases} queries · {facts.started_at[:16].replace('T', ' ')} · {run.origin}"
        lines.append(line(f"{role}  ", Cell(run.name, tone="bold"), about, is_command=True))
    if comparison.restricted:
        pairing = comparison.pairing
        left = len(pairing.only_baseline) + len(pairing.only_other) + len(pairing.changed)
        only = f"Only the {len(pairing.rows)} queries that are the same in both runs are compared"
        lines += [line(""), line(Cell(only, tone="bold bad"), f" (--common); {left} are left out.")]
    if not comparison.changes and not comparison.mismatches:
        lines += [line(""), line("Settings, golden data, collection, versions and commit are the same.")]
    yield Section(lines=lines)
    for title, rows in (
        ("Settings that differ", [*map(_change, comparison.changes)]),
        ("Other differences", [*map(_mismatch, comparison.mismatches)]),
    ):
        if rows:
            yield Section(
                lines=[line(""), line(Cell(title, tone="bold"))], columns=[Column("")] * len(rows[0]), rows=rows
            )
    rows = [row for row in map(_row, comparison.differences) if {cell.text for cell in row[1:]} - NOTHING]
    yield Section(lines=[line("")], columns=COLUMNS, rows=rows, spills=True)


def _change(change: SettingChange) -> list[Cell]:
    return [Cell(change.setting), Cell(None, f"{_value(change.baseline)} → {_value(change.other)}")]


def _mismatch(mismatch: Mismatch) -> list[Cell]:
    return [Cell(mismatch.what), Cell(None, f"{mismatch.baseline} → {mismatch.other}"), Cell(mismatch.meaning)]


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)


def _row(one: Difference) -> list[Cell]:
    *values, interval, counts, verdict = difference(one)
    paired = one.paired
    return [
        *values,
        interval,
        Cell(paired and paired.p, _p_value(paired.p if paired else None)),
        Cell(one.p_adjusted, _p_value(one.p_adjusted)),
        counts,
        Cell(paired and paired.n, str(paired.n) if paired else "–"),
        verdict,
    ]


def _p_value(value: float | None) -> str:
    return "–" if value is None else "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _remark(difference: Difference) -> str:
    parts = [difference.note] if difference.note not in ("", WHOLE_RUN) else []
    if difference.only_baseline or difference.only_other:
        parts.append(
            f"{len(difference.only_baseline)} scored in the baseline only, "
            f"{len(difference.only_other)} in the other only"
        )
    if difference.failed:
        worst = "" if difference.worst is None else f", at worst {signed(difference.metric, difference.worst)}"
        parts.append(f"{len(difference.failed)} failed{worst}")
    return "; ".join(parts)


def _beside(comparison: Comparison, family: int) -> Section:
    """Return what must be known beside the table, and how it is read."""
    remarks = [(each.metric, text) for each in comparison.differences if (text := _remark(each))]
    tests = list(dict.fromkeys(each.paired.test for each in comparison.differences if each.paired))
    notes = ["Difference: other − baseline, over the queries scored in both. Win: the other is better."]
    if tests:
        notes.append(
            f"Intervals: each at 95%. p: of the test ({'; '.join(tests)}), at least 0.05 where the interval holds 0. "
            f"Holm: p adjusted over all {family} tests, by which better and worse are decided."
        )
    if any(each.note == WHOLE_RUN for each in comparison.differences):
        notes.append("Without n: statistics of the whole run, which are not paired by query and have no p.")
    texts = [*(f"  {metric}: {text}" for metric, text in remarks), " ".join(notes)]
    return Section(lines=[line(Cell(text, tone="dim")) for text in texts])


def _moved(comparison: Comparison, queries: int) -> Iterator[Section]:
    shown, metrics = comparison.moved[:queries], dict.fromkeys(move.metric for move in comparison.moved)
    if not comparison.moved:
        yield Section(lines=[line(""), line("No query moved.")])
    elif shown:
        most = f", {len(shown)} of {len(comparison.moved)}, by {', '.join(metrics)}"
        yield Section(lines=[line(""), line(Cell("Queries that moved most", tone="bold"), most)])
    for move in shown:
        yield Section(
            lines=list(_told(move)), columns=[Column("  baseline"), Column("  other")], rows=_side_by_side(move)
        )


def _told(move: Moved) -> Iterator[Line]:
    tone, word = ("good", "better") if move.gain > 0 else ("bad", "worse")
    change = f"  {move.metric} {figure(move.metric, move.before)} → {figure(move.metric, move.after)}  "
    yield line("")
    yield line("  ", Cell(move.baseline.id, tone="bold"), f" {move.baseline.query}")
    yield line(change, Cell(move.gain, f"{word} by {figure(move.metric, abs(move.gain))}", tone))


def _side_by_side(move: Moved) -> list[list[Cell]]:
    pairs = zip(move.baseline.retrieved, move.other.retrieved, strict=False)
    same = len(list(takewhile(lambda pair: pair[0].chunk_id == pair[1].chunk_id, pairs)))
    # What differs may stand below the first ranks.
    first = same if same >= HITS else 0
    rows = [[Cell(None, f"  1 to {first} the same", "dim")] * 2] if first else []
    columns = [_hits(row, first) for row in (move.baseline, move.other)]
    return rows + [list(both) for both in zip_longest(*columns, fillvalue=Cell(None))]


def _hits(row: QueryRow, first: int) -> list[Cell]:
    if row.retrieved:
        return [_hit(hit) for hit in row.retrieved[first : first + HITS]]
    below = [_hit(hit, "below the threshold ") for hit in row.best_below_threshold[:1]]
    return [Cell(None, "  nothing returned"), *below]


def _hit(hit: Hit, before: str = "") -> Cell:
    """Return a chunk in a line; of a long source the end is shown, where its lines are."""
    prefix = f"  {before}{rank_and_score(hit, scaled=False)}"
    return Cell(hit, prefix + hit.source, keep=len(prefix))


def _regressions(regressions: Sequence[Regression]) -> Iterator[Section]:
    if regressions:
        yield Section(lines=[line(""), line(Cell("Tolerated drops", tone="bold")), *map(_regression, regressions)])


def _regression(one: Regression) -> Line:
    drop = "drop unknown" if one.drop is None else f"drop {signed(one.metric, one.drop)}"
    verdict = Cell(one.passed, "pass" if one.passed else "FAIL", "good" if one.passed else "bad")
    return line("  ", verdict, f"  {one.metric}  {drop}, tolerated {one.tolerance:g}  ({one.reason})")


def _comparison(comparison: Comparison) -> dict[str, Any]:
    pairing = comparison.pairing
    return {
        "run": _run(comparison.other),
        "restricted": comparison.restricted,
        "queries": {
            "compared": len(pairing.rows),
            "only_baseline": list(pairing.only_baseline),
            "only_other": list(pairing.only_other),
            "changed": list(pairing.changed),
        },
        "mismatches": [asdict(item) for item in comparison.mismatches],
        "settings": [asdict(item) for item in comparison.changes],
        "metrics": {item.metric: _metric(item) for item in comparison.differences},
        "moved": [_move(item) for item in comparison.moved],
        "regressions": [asdict(item) for item in comparison.regressions],
    }


def _run(run: Run) -> dict[str, Any]:
    facts = run.report.facts
    return {"name": run.name, "origin": run.origin, "started_at": facts.started_at, "cases": facts.cases}


def _metric(difference: Difference) -> dict[str, Any]:
    paired = difference.paired
    return {
        "better": difference.better,
        "baseline": difference.baseline,
        "other": difference.other,
        "difference": difference.difference,
        "ci_low": paired.interval.low if paired else None,
        "ci_high": paired.interval.high if paired else None,
        "p": paired.p if paired else None,
        "p_adjusted": difference.p_adjusted,
        "p_test": paired.p_test if paired else None,
        "test": paired.test if paired else None,
        "n": paired.n if paired else 0,
        "wins": difference.wins,
        "ties": paired.ties if paired else 0,
        "losses": difference.losses,
        "only_baseline": list(difference.only_baseline),
        "only_other": list(difference.only_other),
        "failed": list(difference.failed),
        "worst": difference.worst,
        "note": difference.note,
    }


def _move(move: Moved) -> dict[str, Any]:
    return {
        "id": move.baseline.id,
        "query": move.baseline.query,
        "in_scope": move.baseline.in_scope,
        "metric": move.metric,
        "before": move.before,
        "after": move.after,
        "gain": move.gain,
        "baseline": _result(move.baseline),
        "other": _result(move.other),
    }


def _result(row: QueryRow) -> dict[str, Any]:
    shown: dict[str, Any] = {"outcome": row.outcome, "reasons": row.reasons}
    for name in ("retrieved", "best_below_threshold"):
        shown[name] = [
            {**hit.model_dump(mode="json"), **hit.chunk.model_dump(exclude={"text"}), "preview": hit.preview}
            for hit in getattr(row, name)
        ]
    return shown
