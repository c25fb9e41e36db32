"""The sections of a grid: which cell to take, the recommendation, the best cells, when to return nothing. Pure."""

from collections.abc import Iterator, Sequence
from math import isfinite

from evals.collect.observations import Summary
from evals.grid.choice import Choice
from evals.grid.decision import ANY, NO_OUT_OF_SCOPE, Decision, Level
from evals.grid.objective import TOKENS, written
from evals.grid.thresholds import beyond
from evals.metrics import declared
from evals.report.grid import cut
from evals.report.model import GridSection, Report
from evals.report.section import Column, Section, Styled, line, row_of, shown_columns
from evals.report.sections import figure, numbers
from evals.stats.abstention import CHANCE, FINAL

# Metrics that are shown of a cell besides those of the objective and the constraints, if the grid has them.
BESIDE = (
    "ragas/id_context_precision",
    "ragas/id_context_recall",
    "scope/false_answer",
    "scope/false_abstention",
    TOKENS,
)
P95 = "latency/total_p95_ms"
UNSCORED = "no similarities are read from the retriever"
RECOMMENDED = "★ recommended"


def grid_sections(report: Report, grid: GridSection, most: int) -> Iterator[Section]:
    """Yield which cell to take, the recommendation, the best cells and when to return nothing.

    Args:
        report: The run.
        grid: The grid of the run.
        most: Most standings that are shown, besides the recommended one.
    """
    if warnings := list(_not_chosen(report, grid)):
        yield Section(name="warning", lines=[line(Styled(text, "fair")) for text in warnings])
    if grid.decision and grid.choice:
        yield decision_section(report, grid, grid.decision, grid.choice)
    cells = grid.cells
    proof = [line(Styled(grid.proof, "bold"))] if grid.proof else []
    sizes = f"  {len(grid.configurations)} × retrieved · {len(report.queries)} queries"
    head = [line(Styled(f"Grid of {len(cells):,} cells", "bold"), sizes), line(Styled(_by(report, grid), "dim"))]
    reach = "" if grid.decision or not grid.choice else _reach(grid, grid.choice)
    priced = f"It is the cell {reach}: more chunks seldom lower what is found; only a price on tokens weighs them"
    explained = [*grid.explanation, *([f"{priced} (objective.metrics: cost/context_tokens)"] if reach else [])]
    yield Section(name="recommendation", lines=[*proof, *head, *map(line, explained)])
    if grid.choice:
        yield best_cells(grid, grid.choice, most)


def _not_chosen(report: Report, grid: GridSection) -> Iterator[str]:
    """Yield each reason why no threshold can be chosen."""
    if NO_OUT_OF_SCOPE in report.notes:
        yield NO_OUT_OF_SCOPE[0].upper() + NO_OUT_OF_SCOPE[1:]
    if not sweeps_thresholds(grid) and any(note.startswith(UNSCORED) for note in report.notes):
        yield f"{UNSCORED[0].upper()}{UNSCORED[1:]}, so no threshold can be chosen: cells differ in top_k alone"
    found = [name for name in grid.ranking.metrics if name in grid.metrics and not name.startswith("scope/")]
    if found and not any(mean for name in found for mean in grid.metrics[name].mean):
        yield f"{', '.join(found)} is 0 in every cell: nothing relevant is found, so that no cell is to be recommended"


def sweeps_thresholds(grid: GridSection) -> bool:
    """Return True if the grid has several thresholds."""
    return len(grid.axes.get("threshold", ())) > 1


def decision_section(report: Report, grid: GridSection, decision: Decision, choice: Choice) -> Section:
    """Return the table of cells to take: one for each limit of wrong answers, and the recommended one. Notes follow."""
    labels = ["any" if level.limit == ANY else f"at most {100 * level.limit:.3g}%" for level in decision.levels]
    levels = list(zip([*labels, RECOMMENDED], [*decision.levels, decision.recommended], strict=True))
    rows = [_level_row(label, level, report, grid) for label, level in levels]
    retrievals: dict[str, list[str]] = {}
    for label, level in levels:
        if level.cell is not None:
            retrievals.setdefault(grid.configuration_of(level.cell).name, []).append(label)
    retrieved_by = [f"{name} ({', '.join(labels)})" for name, labels in retrievals.items()]
    out_of_scope = len(report.queries) - report.in_scope
    about = f"  {report.in_scope} in scope, {out_of_scope} out of scope · {len(grid.cells):,} cells"
    if len(retrievals) == 1:
        about += f" · {next(iter(retrievals))}"
    lines = [line(Styled(warning, "fair"))] if (warning := _not_separated(grid)) else []
    lines.append(line(Styled("Which threshold and top_k?", "bold"), about))
    held_out = "Held out: what is found · wrongly answered, of queries without a part in the choice"
    notes = [
        held_out if decision.recommended.held_out_false_answer else "",
        _out_of_reach(levels, grid, choice),
        f"Retrieved by {' · '.join(retrieved_by)}" if len(retrieved_by) > 1 else "",
        f"★ {_reason(grid, decision, choice)}; {_rivals(grid, decision, choice)}",
        f"Promised for questions like these (95%): {decision.promise}" if decision.promise else "",
    ]
    metric = next((level.figures.found.metric for _, level in levels if level.figures), "").partition("/")[2]
    columns = (
        *(Column("wrong answers"), Column("take"), *numbers(metric, "wrongly answered", "wrongly silent")),
        *numbers("held out", "tokens", "p95 ms", "passes", is_needed=False),
    )
    places = shown_columns(columns, rows)
    return Section(
        name="decision",
        lines=lines,
        columns=[columns[n] for n in places],
        rows=[[row[n] for n in places] for row in rows],
        below=[*(line(Styled(note, "dim")) for note in notes if note), line("")],
    )


def _level_row(label: str, level: Level, report: Report, grid: GridSection) -> Sequence[Styled]:
    """Return the row of a level: its cell, the figures and costs of the cell, and how many queries pass."""
    cell, figures = level.cell, level.figures
    if cell is None or not figures:
        return row_of(label, "none", *["–"] * 7)
    decided = report.validation.passed + report.validation.failed
    tokens, latency = grid.metrics[TOKENS].mean[cell], grid.configuration_of(cell).metrics.get(P95)
    p95, rate = latency and latency.value, figures.passed.value
    held_out = [f"{level.held_out.value:.3f}" if level.held_out and level.held_out.value is not None else "–"]
    wrong = level.held_out_false_answer
    texts = (
        label,
        cut(grid.cells.top_k[cell], grid.cells.threshold[cell]),
        _with_ends(figures.found, 1, 2),
        _with_ends(figures.false_answer, 100, 0),
        _with_ends(figures.false_abstention, 100, 0),
        " · ".join([*held_out, *([f"{wrong.value:.0%}"] if wrong and wrong.value is not None else [])]),
        "–" if tokens is None else f"{tokens:,.0f}",
        "–" if p95 is None else f"{p95:.1f}",
        "–" if rate is None else f"{round(rate * decided)} of {decided}",
    )
    return [Styled(text, "bold" if label == RECOMMENDED else "") for text in texts]


def _out_of_reach(levels: Sequence[tuple[str, Level]], grid: GridSection, choice: Choice) -> str:
    """Return which levels no cell meets, and the fewest wrong answers of a cell; empty if each level has a cell."""
    empty = ", ".join(label for label, level in levels if level.cell is None)
    widest = levels[0][1]
    reason = f"every cell that answers in scope, and may be chosen, wrongly answers at least {widest.nearest:.0%}"
    reason = reason if widest.figures else "no cell that may be chosen answers a query in scope"
    highest = max(threshold or 0 for threshold in grid.cells.threshold)
    allowed = (cell for standing in choice.standings for cell in standing.members)
    is_allowed = any(grid.cells.threshold[cell] == highest for cell in allowed)
    higher = beyond(grid.signals, highest) if is_allowed and sweeps_thresholds(grid) else ""
    further = f"; the best scores reach further: {higher}" if higher else ""
    return f"{empty}: none, as {reason}{further}" if empty else ""


def _reason(grid: GridSection, decision: Decision, choice: Choice) -> str:
    """Return for which weight of out-of-scope queries the cell is recommended, and whether because it is cheaper."""
    weighed = f"at weight {decision.weight:.3g} of out-of-scope queries (objective.out_of_scope)"
    if not decision.weight and not sweeps_thresholds(grid):
        weighed = "without a weight of out-of-scope queries, as the threshold is not swept"
    is_best, reach = choice.recommended.cell == choice.best.cell, _reach(grid, choice)
    weighed += reach and f", {reach}"
    return f"taken {weighed}" + ("" if is_best else f": it is cheaper, and at most {choice.margin:g} below the best")


def _reach(grid: GridSection, choice: Choice) -> str:
    """Return that the recommended top_k is the end of the sweep, or of what the objective reads; empty if neither."""
    top_k = grid.cells.top_k[choice.recommended.cell]
    if top_k == min(grid.cells.top_k):
        return ""
    if top_k == max(grid.cells.top_k):
        return "with the largest top_k swept"
    deep = [name for name in grid.ranking.metrics if name.endswith(f"_at_{top_k}")]
    return f"with as large a top_k as {deep[0]} reads" if deep else ""


def _rivals(grid: GridSection, decision: Decision, choice: Choice) -> str:
    """Return which cells may be the best."""
    if choice.note:
        return f"which may be the best is {choice.note}"
    allowed = len(grid.cells) - grid.ranking.excluded
    return f"{len(choice.may_be_best):,} of {allowed:,} cells may be the best (95%): {decision.may_be_best}"


def _not_separated(grid: GridSection) -> str:
    """Return a warning if the threshold's score is not shown to be higher in scope, with a score that is; or empty."""
    if not grid.signals or grid.signals[0].separates:
        return ""
    signal, *others = grid.signals
    score = "The score that the threshold reads" + ("" if signal.name == "cosine" else f" ({signal.name})")
    if signal.high is not None and signal.high < CHANCE:
        return f"{score} is lower in scope than out of scope: {signal}. Is it a distance? 1 − distance is a similarity."
    text = f"{score} is not shown to be higher in scope than out of scope: {signal}."
    for other in others:
        if other.separates and other.auroc > signal.auroc:
            best = "--retriever.threshold-on best " if signal.name == FINAL else ""
            flags = f"{best}--retriever.threshold-signal {other.name} {beyond([other], 0)}"
            return f"{text} {other.name} is: {other}; set {flags.rstrip()}"
    return text + "".join(f" Nor is {other.name}: {other}." for other in others)


def _with_ends(figure: Summary, scale: int, digits: int) -> str:
    """Return a value with its interval, as a number (scale 1) or as percent (scale 100).

    Args:
        figure: The value, 0 to 1.
        scale: 1 or 100.
        digits: Decimal places of the ends.
    """
    if figure.value is None:
        return "–"
    text = f"{figure.value:.3f}" if scale == 1 else f"{figure.value:.0%}"
    if figure.ci_low is None or figure.ci_high is None:
        return text
    return f"{text} ({scale * figure.ci_low:.{digits}f}…{scale * figure.ci_high:.{digits}f})"


def columns(grid: GridSection) -> list[str]:
    """Return the metrics that are shown of a cell: those of objective and constraints, and a few more."""
    constraints = grid.ranking.constraints
    names = dict.fromkeys((*grid.ranking.metrics, *constraints, *BESIDE))
    return [name for name in names if name in grid.metrics or name in constraints]


def best_cells(grid: GridSection, choice: Choice, most: int) -> Section:
    """Return the first standings and the recommended one as a table."""
    names, cells = columns(grid), grid.cells
    weighted = len(grid.ranking.metrics) > 1 or set(grid.ranking.metrics.values()) != {1.0}
    rows = []
    for number, standing in enumerate(choice.standings, 1):
        is_chosen = standing.cell == choice.recommended.cell
        if number > most and not is_chosen:
            continue
        cell, same = standing.cell, len(standing.members) - 1
        threshold = cells.threshold[cell]
        is_rival = standing.in_set and not choice.note
        mark = ("★" if is_chosen else "✓" if is_rival else "") + (f" +{same}" if same else "")
        rows.append(row_of(
            *(str(number), grid.configuration_of(cell).name, str(cells.top_k[cell])),
            "–" if threshold is None else f"{threshold:.6g}",
            Styled(mark, "good bold" if is_chosen else ""),
            *([f"{standing.value:.3f}"] if weighted else []),
            *(_figure(grid, name, cell) for name in names),
            "–" if standing.interval.low is None else f"{standing.interval.low:.3f} … {standing.interval.high:.3f}",
        ))  # fmt: skip
    return Section(
        name="cells",
        lines=[line("")],
        columns=(
            *(*numbers(""), Column("retrieval"), *numbers("top_k", "threshold"), Column("")),
            *(numbers("objective") if weighted else ()),
            *(*numbers(*names[:1]), *numbers(*names[1:], is_needed=False)),
            Column("95% interval", is_needed=False),
        ),
        rows=rows,
        below=[line("✓ may be the best · ★ recommended · +n: n more cells scored the same on every query")],
    )


def _figure(grid: GridSection, name: str, cell: int) -> str:
    """Return a metric of a cell: its mean, in which a failed score counts as the worse end of its range, if any."""
    metric = grid.metrics.get(name)
    if metric is None:
        of_configuration = grid.configuration_of(cell).metrics.get(name)
        return figure(name, of_configuration.value if of_configuration else None)
    value, end = metric.mean[cell], declared(name).range[declared(name).direction == "lower"]
    n, failed = (count if isinstance(count, int) else count[cell] for count in (metric.n, metric.n_failed))
    if failed and value is not None and isfinite(end):
        value = (value * n + end * failed) / (n + failed)
    return figure(name, value)


def _by(report: Report, grid: GridSection) -> str:
    """Return what the cells are ranked by, on how many queries, and which constraints they must meet."""
    ranking, is_sample = grid.ranking, report.judge is not None and report.judge.drawn is not None
    judged = {name: "judged " for name in ranking.metrics if is_sample and declared(name).is_judged}
    on = " and ".join(dict.fromkeys(f"{ranking.n[name]} {judged.get(name, '')}queries" for name in ranking.metrics))
    dropped = max(ranking.dropped.values(), default=0)
    text = f"by {ranking.objective}, on {on}" + (f" ({dropped} dropped)" if dropped else "")
    left_out = f" (cells left out: {ranking.excluded:,})"
    return text + (f", where {written(ranking.constraints)}{left_out}" if ranking.constraints else "")
