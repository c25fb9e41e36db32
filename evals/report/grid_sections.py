"""The sections of a grid: which cell to take, the recommendation, the best cells, when to return nothing. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from evals.collect.observations import Summary
from evals.grid.decision import ANY, NO_OUT_OF_SCOPE, Level
from evals.grid.objective import TOKENS
from evals.metrics import declared
from evals.report.grid import cut
from evals.report.model import ChoiceSection, DecisionSection, GridSection, Report
from evals.report.section import Cell, Column, Section, line
from evals.report.sections import figure, numbers
from evals.stats.abstention import FINAL

# Metrics that are shown beside the optimised and constrained ones, where the grid has them.
BESIDE = (
    "ragas/id_context_precision",
    "ragas/id_context_recall",
    "scope/false_answer",
    "scope/false_abstention",
    TOKENS,
)
P95 = "latency/total_p95_ms"
UNSCORED = "the retriever gives no scores"


def grid_sections(report: Report, grid: GridSection, most: int) -> Iterator[Section]:
    """Yield which cell to take, the recommendation, the best cells and when to return nothing.

    Args:
        report: The run.
        grid: Its grid.
        most: Number of standings, besides the recommended one.
    """
    if warnings := list(_not_chosen(report, grid)):
        yield Section(name="warning", lines=[line(Cell(text, tone="fair")) for text in warnings])
    if grid.decision and grid.choice:
        yield decision_section(report, grid, grid.decision, grid.choice)
    cells, proof = grid.cells, [line(Cell(grid.proof, tone="bold"))] if grid.proof else []
    counts = Counter(one for one, _ in {*zip(cells.configuration, cells.threshold, strict=True)}).values()
    thresholds = " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts))))
    sizes = (
        f"  {len(grid.configurations)} × retrieved, {len(set(cells.top_k))} × top_k, {thresholds} × threshold · "
        f"{len(report.queries)} queries"
    )
    head = [line(Cell(f"Grid of {cells.count:,} cells", tone="bold"), sizes), line(Cell(_by(report, grid), tone="dim"))]
    yield Section(name="recommendation", lines=[*proof, *head, *map(line, grid.explanation)])
    if grid.choice:
        yield best_cells(grid, grid.choice, most)
    if grid.abstention:
        place = 0 if grid.chosen is None else cells.index.index(grid.chosen)
        where = f"{grid.configurations[cells.configuration[place]].name}, top_k {cells.top_k[place]}"
        told = [line(f"  {text}") for text in grid.abstention]
        if others := [f"{other.name} {other}" for other in grid.signals[1:]]:
            read_by = "retriever.threshold_signal" + (", threshold_on: best" if grid.signals[0].name == FINAL else "")
            told.append(line(f"  other scores of the same search ({read_by}): {'; '.join(others)}"))
        yield Section(lines=[line("")])
        yield Section(name="abstention", title=f"When to return nothing ({where})", lines=told)


def _not_chosen(report: Report, grid: GridSection) -> Iterator[str]:
    """Yield why no threshold can be chosen."""
    if NO_OUT_OF_SCOPE in report.notes:
        yield NO_OUT_OF_SCOPE[0].upper() + NO_OUT_OF_SCOPE[1:]
    if not _sweeps_thresholds(grid) and any(note.startswith(UNSCORED) for note in report.notes):
        yield f"{UNSCORED[0].upper()}{UNSCORED[1:]}, so no threshold can be chosen: cells differ in top_k alone"


def _sweeps_thresholds(grid: GridSection) -> bool:
    return len(grid.axes.get("threshold", ())) > 1


def decision_section(report: Report, grid: GridSection, decision: DecisionSection, choice: ChoiceSection) -> Section:
    """Return the table of which cell to take for what one can bear, with what it rests on below."""
    levels, places = (*decision.levels, decision.recommended), grid.places()
    rows, ways = [_level(level, report, grid, places) for level in levels], dict[str, list[str]]()
    for level, (label, *_) in zip(levels, rows, strict=True):
        if level.cell is not None:
            way = grid.configurations[grid.cells.configuration[places[level.cell]]].name
            ways[way] = [*ways.get(way, []), label.text]
    alone = f" · {next(iter(ways))}" if len(ways) == 1 else ""
    inside = sum(row.in_scope for row in report.queries)
    scope = f"{inside} in scope, {len(report.queries) - inside} out of scope"
    count = sum(len(standing.members) for standing in choice.standings if standing.in_set)
    is_set = decision.weight == report.config.get("objective", {}).get("out_of_scope")
    weighed = (
        f"at weight {decision.weight:.3g} of out-of-scope queries (objective.{'out_of_scope' if is_set else 'metrics'})"
    )
    if not decision.weight and not _sweeps_thresholds(grid):
        weighed = "without a weight of out-of-scope queries, as the threshold is not swept"
    is_best = choice.recommended.cell == choice.standings[0].cell
    cheaper = "" if is_best else f": it is cheaper, and at most {choice.margin:g} below the best"
    as_good = f"{count:,} of {grid.cells.count - grid.ranking.excluded:,} cells may be as good (95%)"
    as_good = f"which may be as good is {choice.note}" if choice.note else f"{as_good}: {decision.may_be_best}"
    missed = [label.text for level, (label, *_) in zip(levels, rows, strict=True) if level.cell is None]
    notes = [
        f"{', '.join(missed)}: none, as every cell wrongly answers {levels[0].nearest:.0%} or more" if missed else "",
        "" if alone else "Retrieved by " + " · ".join(f"{way} ({', '.join(them)})" for way, them in ways.items()),
        f"★ taken {weighed}{cheaper}; {as_good}",
        f"Best by weight: {decision.turns}" if decision.turns and _sweeps_thresholds(grid) else "",
        f"Promised for questions like these (95%): {decision.promise}" if decision.promise else "",
    ]
    found = decision.recommended.figures[0].metric.partition("/")[2]
    columns = (
        *(Column("wrong answers"), Column("take"), *numbers(found, "wrongly answered", "wrongly silent")),
        *numbers("tokens", "p95 ms", "passes", "held out", is_needed=False),
    )
    told = [place for place, column in enumerate(columns) if column.is_needed or any(row[place].value for row in rows)]
    head = line(Cell("Which threshold and top_k?", tone="bold"), f"  {scope} · {grid.cells.count:,} cells{alone}")
    warning = _not_separated(grid, report.config["retriever"])
    return Section(
        name="decision",
        lines=[*([line(Cell(warning, tone="fair"))] if warning else []), head],
        columns=[columns[place] for place in told],
        rows=[[row[place] for place in told] for row in rows],
        below=[*(line(Cell(note, tone="dim")) for note in notes if note), line("")],
    )


def _level(level: Level, report: Report, grid: GridSection, places: dict[int, int]) -> list[Cell]:
    starred = grid.decision is not None and level is grid.decision.recommended
    limit, tone = "any" if level.limit == ANY else f"at most {100 * level.limit:.3g}%", "bold" if starred else ""
    label = Cell(level.limit, "★ recommended" if starred else limit, tone)
    if level.cell is None:
        return [label, Cell(None, "none"), *[Cell(None, "–")] * 7]
    cells, place, (found, *shares, passed) = grid.cells, places[level.cell], level.figures
    count = report.validation.passed + report.validation.failed
    tokens = grid.metrics[TOKENS].mean[place]
    latency = grid.configurations[cells.configuration[place]].metrics.get(P95)
    p95, held_out = latency and latency.value, level.held_out and level.held_out.value
    return [
        *(label, Cell(level.cell, cut(cells.top_k[place], cells.threshold[place]), tone)),
        Cell(found.value, _with_ends(found, 1, 2), tone),
        *(Cell(share.value, _with_ends(share, 100, 0), tone) for share in shares),
        Cell(tokens, "–" if tokens is None else f"{tokens:,.0f}", tone),
        Cell(p95, "–" if p95 is None else f"{p95:.1f}", tone),
        Cell(passed.value, "–" if passed.value is None else f"{round(passed.value * count)} of {count}", tone),
        Cell(held_out, "–" if held_out is None else f"{held_out:.3f}", tone),
    ]


def _not_separated(grid: GridSection, retriever: dict[str, Any]) -> str:
    """Return that the threshold's score does not tell queries in scope from others, and what does; else nothing."""
    if not grid.signals or grid.signals[0].separates:
        return ""
    own, *others = grid.signals
    what = f"The score that the threshold reads ({own.name})"
    said = f"{what} is not shown to separate in scope from out of scope: {own}."
    better = [other for other in others if other.separates and other.auroc > own.auroc]
    if better:
        return f"{said} {better[0].name} is: {better[0]}; set {' '.join(_reading(own.name, better[0].name))}"
    said += "".join(f" Nor is {other.name}: {other}." for other in others)
    lacking = [name for name in ("bm25", "known_words") if name not in (own.name, *(other.name for other in others))]
    if not lacking or retriever.get("python"):
        return said
    return f"{said} Not measured: {' '.join(_reading(own.name, ' or '.join(lacking)))}, in mode hybrid"


def _reading(own: str, other: str) -> Iterator[str]:
    """Yield the flags by which the threshold reads another score; the final one has no part in which signal it is."""
    if own == FINAL:
        yield "--retriever.threshold-on best"
    if own != FINAL or other != "cosine":
        yield f"--retriever.threshold-signal {other}"


def _with_ends(figure: Summary, scale: int, digits: int) -> str:
    """Return a value with its interval, as a number or as percent."""
    if figure.value is None:
        return "–"
    text = f"{figure.value:.3f}" if scale == 1 else f"{figure.value:.0%}"
    if figure.ci_low is None or figure.ci_high is None:
        return text
    return f"{text} ({scale * figure.ci_low:.{digits}f}…{scale * figure.ci_high:.{digits}f})"


def columns(grid: GridSection) -> list[str]:
    """Return the metrics that are shown of a cell: the optimised and constrained ones, and some beside them."""
    constraints = grid.ranking.constraints
    names = dict.fromkeys((*grid.ranking.metrics, *constraints, *BESIDE))
    return [name for name in names if name in grid.metrics or name in constraints]


def best_cells(grid: GridSection, choice: ChoiceSection, most: int) -> Section:
    """Return the first standings and the recommended one as a table."""
    names, chosen, cells, places = columns(grid), choice.recommended.cell, grid.cells, grid.places()
    weighted = len(grid.ranking.metrics) > 1 or set(grid.ranking.metrics.values()) != {1.0}
    rows = []
    for number, standing in enumerate(choice.standings, 1):
        is_chosen = standing.cell == chosen
        if number > most and not is_chosen:
            continue
        place, same = places[standing.cell], len(standing.members) - 1
        threshold, low, high = cells.threshold[place], standing.low, standing.high
        mark = ("★" if is_chosen else "✓" if standing.in_set else "") + (f" +{same}" if same else "")
        rows.append([
            *(Cell(number), Cell(grid.configurations[cells.configuration[place]].name), Cell(cells.top_k[place])),
            Cell(threshold, "–" if threshold is None else f"{threshold:.6g}"),
            Cell(None, mark, "good bold" if is_chosen else ""),
            *([Cell(standing.value, f"{standing.value:.3f}")] if weighted else []),
            *(_figure(grid, name, place) for name in names),
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
