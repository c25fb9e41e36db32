"""Reading a saved report, or a cell of its grid as the report of a run."""

from math import inf

from pydantic import ValidationError

from evals.collect.observations import VERDICT_METRIC
from evals.errors import ReportError
from evals.metrics import declared, remember
from evals.metrics.declaration import ROUNDING, SHARE, Declaration, summarise
from evals.report.model import SCHEMA_VERSION, Hit, QueryRow, Report, ResultsByCell, ScoreValue
from evals.sampling.order import NOT_DRAWN
from retrievers.config.files import load_json
from retrievers.errors import nearest
from retrievers.text.shown import quoted

# Most faults that a message lists.
MOST_FAULTS = 5
# Name of the weighted mean of an objective's in-scope metrics, if it has several.
FOUND = "found"
# Largest file of a report. It has room for tens of thousands of queries.
MOST_BYTES = 500_000_000


def parse(text: str, origin: str) -> Report:
    """Read a report. Its schema version is checked first.

    Args:
        text: The JSON document.
        origin: Source of the document, for messages.

    Raises:
        ReportError: The text is no JSON, no report, of another schema version, or does not follow the schema.
    """
    try:
        document = load_json(text)
    except ValueError as error:
        raise ReportError(f"{origin}: {error}; expected a report of evals.run") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        raise ReportError(f"{origin}: expected a report of evals.run, which has a schema_version")
    if (version := document["schema_version"]) != SCHEMA_VERSION:
        raise ReportError(
            f"{origin}: expected a report of schema version {SCHEMA_VERSION}, found version {quoted(version)}; "
            "make it again with this version of retrieval-evals, or read it with the version that made it"
        )
    try:
        report = Report.model_validate_json(text)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)]
        raise ReportError(f"{origin}: not a report of schema version {SCHEMA_VERSION}:", faults[:MOST_FAULTS]) from None
    for metric in report.own_metrics:
        remember(metric.declaration)
    return report


def cell_report(report: Report, name: str) -> Report:
    """Return the report of a cell of a grid, with the scores that the grid holds by query.

    Args:
        report: The report of the grid.
        name: Name of the cell in an address. The retrieval may be left out if only one cell has these cuts.

    Raises:
        ReportError: The report holds no results by cell, or has no such cell, or several.
    """
    grid, by_cell = report.grid, report.grid.results if report.grid else None
    if grid is None or by_cell is None:
        expected = "expected a grid (--sweep.*) of at most 250,000 queries × thresholds"
        raise ReportError(f"#{name}: the report holds no results by cell; {expected}")
    names = grid.addresses
    cells = [cell for cell, whole in enumerate(names) if f"-{whole}".endswith(f"-{name}")]
    if len(cells) != 1:
        count = f"{len(cells)} cells" if cells else "no cell"
        examples = " or ".join(names[cell] for cell in cells[:3] or [0])
        near = "" if cells else nearest(name, names)
        raise ReportError(f"#{name}: the grid has {count} of that name; expected one such as {examples}{near}")
    [cell], columns = cells, grid.cells
    way, top_k, threshold = columns.configuration[cell], columns.top_k[cell], columns.threshold[cell]
    thresholds = dict.fromkeys(t for n, t in zip(columns.configuration, columns.threshold, strict=True) if n == way)
    lists = by_cell.list_of[way][[*thresholds].index(threshold)]
    results = [_result(row, by_cell, number, top_k) for row, number in zip(report.queries, lists, strict=True)]
    silent = [(row.in_scope, float(not row.retrieved)) for row, _ in results]
    if len(by_cell.metrics) > 1:
        ends = SHARE if all(abs(score - 0.5) <= 0.5 + ROUNDING for score in by_cell.scores) else (-inf, inf)
        remember(Declaration(name=FOUND, about=f"weighted mean of {', '.join(by_cell.metrics)}", range=ends))
    scores: dict[str, list[ScoreValue | None]] = {
        (by_cell.metrics[0] if len(by_cell.metrics) == 1 else FOUND): [score for _, score in results],
        "scope/abstention": [None if in_scope else is_silent for in_scope, is_silent in silent],
        "scope/false_abstention": [is_silent if in_scope else None for in_scope, is_silent in silent],
    }
    passed: dict[str, list[ScoreValue | None]] = {VERDICT_METRIC: [row.passed for row, _ in results]}
    configuration, before = grid.configurations[way], report.config["retriever"]
    parameters = {name: value for name, value in configuration.parameters.items() if name in before}
    return Report(
        schema_version=SCHEMA_VERSION,
        name=names[cell],
        run=names[cell],
        passed=report.passed,
        settings=f"{configuration.name} · top_k {top_k}" + ("" if threshold is None else f" · threshold {threshold:g}"),
        facts=report.facts,
        config={**report.config, "retriever": {**before, **parameters, "top_k": top_k, "threshold": threshold}},
        metrics={name: summarise(report.declared(name), column) for name, column in (scores | passed).items()},
        own_metrics=report.own_metrics,
        headline=list(scores),
        criteria=(),
        notes=[],
        chunks=by_cell.chunks,
        scores=scores,
        queries=[row for row, _ in results],
    )


def _result(row: QueryRow, by_cell: ResultsByCell, number: int, top_k: int) -> tuple[QueryRow, ScoreValue | None]:
    """Return the row of a query with the result of a cell, and the score of the result, or why there is none.

    Args:
        row: The query, with the result of the recommended cell.
        by_cell: Results of all cells.
        number: Number of the list that the cell's threshold leaves.
        top_k: Cut of the cell.
    """
    ids, chunks = [*by_cell.chunks], by_cell.lists[number][:top_k]
    score, passes = by_cell.found[number][len(chunks)], by_cell.passes[number][len(chunks)]
    hits = [
        Hit(rank=rank, chunk_id=ids[code], score=None, grade=row.relevant.get(ids[code], 0))
        for rank, code in enumerate(chunks, 1)
    ]
    fields = {"retrieved": hits, "best_below_threshold": [], "claims": [], "reasons": [], "cause": None}
    fields |= dict.fromkeys(("metadata_accuracy", "content_relevance", "accuracy_score"))
    outcome = "UNLABELLED" if passes < 0 else "SUCCESS" if passes else "FAILURE"
    own = next((row.scores.get(name) for name in by_cell.metrics if "judge" in declared(name).needs), None)
    # The judge may have been asked about the recommended cell alone.
    missing = NOT_DRAWN if isinstance(own, float | int) else own
    return row.model_copy(update={**fields, "outcome": outcome}), missing if score < 0 else by_cell.scores[score]
