"""The sections of a grid: which cell to take, the recommendation, the best cells, when to return nothing. Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from evals.collect.observations import Summary
from evals.grid.choice import Choice
from evals.grid.decision import ANY, Decision, Level, Turn
from evals.grid.objective import TOKENS
from evals.metrics import declared
from evals.report.model import GridSection, Report, Validation
from evals.report.section import Cell, Column, Section, line
from evals.report.sections import numbers
from evals.report.text import figure
from evals.stats.abstention import Promise

# Weights at which the choice changes that are shown.
MOST_WEIGHTS = 6
# Metrics that are shown beside the optimised and constrained ones, where the grid has them.
BESIDE = (
    "ragas/id_context_precision",
    "ragas/id_context_recall",
    "scope/false_answer",
    "scope/false_abstention",
    TOKENS,
)


def grid_sections(report: Report, grid: GridSection, most: int) -> Iterator[Section]:
    """Yield which cell to take, the recommendation, the best cells and when to return nothing.

    Args:
        report: The run.
        grid: Its grid.
        most: Number of standings, besides the recommended one.
    """
    if grid.decision and grid.choice:
        yield decision_section(grid, grid.decision, grid.choice, report.validation)
    cells, lines = grid.cells, [line(Cell(grid.proof, tone="bold"))] if grid.proof else []
    counts = sorted(Counter(one for one, _ in {*zip(cells.configuration, cells.threshold, strict=True)}).values())
    thresholds = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    sizes = (
        f"  {len(grid.configurations)} × retrieved, {len(set(cells.top_k))} × top_k, {thresholds} × "
        f"threshold · {report.validation.total} queries"
    )
    lines.append(line(Cell(f"Grid of {cells.count:,} cells", tone="bold"), sizes))
    lines.append(line(Cell(_by(report, grid), tone="dim")))
    yield Section(name="recommendation", lines=[*lines, *map(line, grid.explanation)])
    if grid.choice:
        yield best_cells(grid, grid.choice, most)
    if grid.abstention:
        place = 0 if grid.chosen is None else cells.index.index(grid.chosen)
        where = f"{grid.configurations[cells.configuration[place]].name}, top_k {cells.top_k[place]}"
        told = [line(f"  {text}") for text in grid.abstention]
        yield Section(lines=[line("")])
        yield Section(name="abstention", title=f"When to return nothing ({where})", lines=told)


def decision_section(grid: GridSection, decision: Decision, choice: Choice, validation: Validation) -> Section:
    """Return the table of which cell to take for what one can bear, with what it rests on below."""
    levels = (*decision.levels, decision.recommended)
    retrievals = {level.retrieval for level in levels if level.cell is not None}
    alone = f" · {next(iter(retrievals))}" if len(retrievals) == 1 else ""
    head = f"  {decision.in_scope} in scope, {decision.out_of_scope} out of scope · {grid.cells.count:,} cells{alone}"
    count = sum(len(standing.members) for standing in choice.best_set)
    notes = [
        f"★ best at weight {decision.weight:.3g} of out-of-scope queries (objective.out_of_scope); {count:,} of "
        f"{grid.cells.count - grid.ranking.excluded:,} cells may be as good (95%): {decision.may_be_best}",
        f"Best from weight: {_listed([f'{one.weight:.2f} {_cut(one)}' for one in decision.by_weight])}",
    ]
    if decision.promised:
        said = " · ".join(_promised(one, decision.out_of_scope) for one in decision.promised)
        notes.append(f"Promised for questions like these (95%): {said}")
    found = decision.recommended.figures[0].metric.partition("/")[2]
    return Section(
        name="decision",
        lines=[line(Cell("Which threshold and top_k?", tone="bold"), head)],
        columns=(
            Column("wrong answers"),
            Column("take", is_needed=False) if len(retrievals) > 1 else Column("take"),
            *(Column(name, is_number=True) for name in (found, "wrongly answered", "wrongly silent")),
            *(Column(name, is_number=True, is_needed=False) for name in ("tokens", "passes")),
        ),
        rows=[_level(level, validation, named=not alone, starred=level is decision.recommended) for level in levels],
        below=[*(line(Cell(note, tone="dim")) for note in notes), line("")],
    )


def _level(level: Level, validation: Validation, *, named: bool, starred: bool) -> list[Cell]:
    tone = "bold" if starred else ""
    limit = "any" if level.limit == ANY else f"at most {100 * level.limit:.3g}%"
    label = Cell(level.limit, "★ recommended" if starred else limit, tone)
    if level.cell is None:
        return [label, Cell(None, f"none (least {level.nearest:.0%})"), *[Cell(None, "–")] * 5]
    found, *shares, passed = level.figures
    count = validation.passed + validation.failed
    return [
        label,
        Cell(level.cell, f"{level.retrieval} {_cut(level)}" if named else _cut(level), tone),
        Cell(found.value, _with_ends(found, 1, 2), tone),
        *(Cell(share.value, _with_ends(share, 100, 0), tone) for share in shares),
        Cell(level.tokens, "–" if level.tokens is None else f"{level.tokens:,.0f}", tone),
        Cell(passed.value, "–" if passed.value is None else f"{round(passed.value * count)} of {count}", tone),
    ]


def _cut(cell: Level | Turn) -> str:
    return f"k{cell.top_k}" + ("" if cell.threshold is None else f" t{cell.threshold:g}")


def _with_ends(figure: Summary, scale: int, digits: int) -> str:
    """Return a value with its interval, as a number or as percent."""
    if figure.value is None:
        return "–"
    text = f"{figure.value:.3f}" if scale == 1 else f"{figure.value:.0%}"
    if figure.ci_low is None or figure.ci_high is None:
        return text
    return f"{text} ({scale * figure.ci_low:.{digits}f}…{scale * figure.ci_high:.{digits}f})"


def _promised(promise: Promise, queries: int) -> str:
    rate = f"at most {100 * promise.rate:.3g}%"
    if promise.threshold is None:
        return f"{rate} takes {promise.queries} out-of-scope queries" if queries < promise.queries else f"{rate} none"
    silent = "" if promise.silent is None else f" ({promise.silent:.0%} silent)"
    return f"{rate} t{promise.threshold:g}{silent}"


def _listed(texts: Sequence[str]) -> str:
    rest = len(texts) - MOST_WEIGHTS
    return " · ".join(texts[:MOST_WEIGHTS]) + (f" · and {rest} more" if rest > 0 else "")


def columns(grid: GridSection) -> list[str]:
    """Return the metrics that are shown of a cell: the optimised and constrained ones, and some beside them."""
    constraints = grid.ranking.constraints
    names = dict.fromkeys((*grid.ranking.metrics, *constraints, *BESIDE))
    return [name for name in names if name in grid.metrics or name in constraints]


def best_cells(grid: GridSection, choice: Choice, most: int) -> Section:
    """Return the first standings and the recommended one as a table."""
    names, chosen, cells = columns(grid), choice.recommended.cell, grid.cells
    weighted = len(grid.ranking.metrics) > 1 or set(grid.ranking.metrics.values()) != {1.0}
    rows = []
    for place, standing in enumerate(choice.standings, 1):
        if place > most and standing.cell != chosen:
            continue
        at, same, is_chosen = (
            bisect_left(cells.index, standing.cell),
            len(standing.members) - 1,
            standing.cell == chosen,
        )
        threshold, low, high = cells.threshold[at], standing.interval.low, standing.interval.high
        mark = ("★" if is_chosen else "✓" if standing.in_set else "") + (f" +{same}" if same else "")
        rows.append([
            *(Cell(place), Cell(grid.configurations[cells.configuration[at]].name), Cell(cells.top_k[at])),
            Cell(threshold, "–" if threshold is None else f"{threshold:.6g}"),
            Cell(None, mark, "good bold" if is_chosen else ""),
            *([Cell(standing.value, f"{standing.value:.3f}")] if weighted else []),
            *(_figure(grid, name, at) for name in names),
            Cell(None, "–" if low is None or high is None else f"{low:.3f} … {high:.3f}"),
        ])  # fmt: skip
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


def _figure(grid: GridSection, name: str, place: int) -> Cell:
    """Return a metric of a cell: its mean, or where scores failed the bound with these as 0."""
    metric = grid.metrics.get(name)
    if metric is None:
        of_configuration = grid.configurations[grid.cells.configuration[place]].metrics.get(name)
        value = of_configuration.value if of_configuration else None
        return Cell(value, figure(name, value))
    value = metric.mean[place]
    n, failed = (count if isinstance(count, int) else count[place] for count in (metric.n, metric.n_failed))
    if failed and value is not None:
        value *= n / (n + failed)
    return Cell(value, figure(name, value))


def _by(report: Report, grid: GridSection) -> str:
    """Return what the cells are ranked by, on how many queries, and what they must meet."""
    ranking, is_sample = grid.ranking, report.judge is not None and report.judge.drawn is not None
    judged = {name: "judged " for name in ranking.metrics if is_sample and declared(name).is_judged}
    on = ", ".join(dict.fromkeys(f"{ranking.n[name]} {judged.get(name, '')}queries" for name in ranking.metrics))
    dropped = max(ranking.dropped.values(), default=0)
    text = f"by {ranking.objective}, on {on}" + (f" ({dropped} dropped)" if dropped else "")
    return text + (f", where {ranking.where} ({ranking.excluded:,} cells are not)" if ranking.constraints else "")
