"""Reading a report back, by its schema, or a cell of its grid as a run of its own."""

import re
from collections import Counter
from collections.abc import Sequence

from pydantic import ValidationError

from evals.collect.observations import VERDICT_METRIC, Summary
from evals.config.experiment import ExperimentConfig
from evals.errors import ReportError
from evals.metrics import remember
from evals.metrics.declaration import Declaration
from evals.report.model import SCHEMA_VERSION, GridSection, Hit, QueryRow, Report, ResultsByCell, ScoreValue
from retrievers.config.files import load_json
from retrievers.config.settings import Settings
from retrievers.errors import nearest
from retrievers.text.quoting import quoted

MAX_FAULTS_SHOWN = 5
# A cell's name in an address, such as `hybrid-weighted-k8-t0.3`.
CUT = re.compile(r"(?:(.*)-)?k(\d{1,9})(?:-t(-?\d*\.?\d+(?:e[-+]?\d+)?))?")
# What several metrics of an objective find, as one number.
FOUND = "found"
# Largest report: tens of thousands of queries.
MOST_BYTES = 500_000_000


def parse(text: str, origin: str) -> Report:
    """Read a report; its schema version is looked at before anything else.

    Args:
        text: The JSON document.
        origin: Origin, for messages.

    Raises:
        ReportError: It is no JSON, no report, one of another schema version, or breaks the schema.
    """
    try:
        document = load_json(text)
    except ValueError as error:
        raise ReportError(f"{origin}: {error}; expected a report of evals.run") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        fields = f"the fields {', '.join(map(quoted, [*document][:5]))}" if isinstance(document, dict) else ""
        what = fields or f"a {type(document).__name__}"
        raise ReportError(f"{origin}: expected a report of evals.run, which has a schema_version; found {what}")
    version = document["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ReportError(
            f"{origin}: expected a report of schema version {SCHEMA_VERSION}, found version {quoted(version)}; "
            "make it again with this version of retrieval-evals, or read it with the version that made it"
        )
    try:
        report = Report.model_validate_json(text)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)]
        more = [f"… and {len(faults) - MAX_FAULTS_SHOWN} more"] if len(faults) > MAX_FAULTS_SHOWN else []
        details = [*faults[:MAX_FAULTS_SHOWN], *more]
        raise ReportError(f"{origin}: not a report of schema version {SCHEMA_VERSION}:", details) from error
    for name, field in ExperimentConfig.model_fields.items():
        is_table = isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
        if is_table and not isinstance(found := report.config.get(name, {}), dict):
            raise ReportError(f"{origin}: config.{name}: expected a table of settings, found {quoted(found)}")
    for metric in report.own_metrics:
        remember(metric.declaration)
    if twice := [name for name, count in Counter(row.id for row in report.queries).items() if count > 1]:
        raise ReportError(f"{origin}: expected every query once, found {quoted(twice[0])} more than once")
    return report


def cell_report(report: Report, name: str) -> Report:
    """Return the report of one cell of a grid, with the scores that the grid holds by query.

    Args:
        report: The report of the grid.
        name: Its name in an address; the retrieval may be left out where one cell alone has these cuts.

    Raises:
        ReportError: The report holds no results by cell, or has no such cell, or several.
    """
    grid, kept = report.grid, report.grid.results if report.grid else None
    if grid is None or kept is None:
        raise ReportError(f"#{name}: the report holds no results by cell; expected one of a grid (--sweep.*)")
    cells, names = grid.cells, [grid.address(place) for place in range(len(grid.cells.index))]
    fitting = _places(grid, names, name)
    if len(fitting) != 1:
        which = f"{len(fitting)} cells" if fitting else "no cell"
        examples = " or ".join(names[place] for place in fitting[:3] or [0])
        near = "" if fitting else nearest(name, names)
        raise ReportError(f"#{name}: the grid has {which} of that name; expected one such as {examples}{near}")
    [place] = fitting
    number, top_k, threshold = cells.configuration[place], cells.top_k[place], cells.threshold[place]
    thresholds = dict.fromkeys(t for n, t in zip(cells.configuration, cells.threshold, strict=True) if n == number)
    try:
        lists = kept.list_of[number][[*thresholds].index(threshold)]
        results = [_result(row, kept, which, top_k) for row, which in zip(report.queries, lists, strict=True)]
    except (IndexError, ValueError):
        raise ReportError(f"#{name}: the results by cell do not fit the cells of the report; make it again") from None
    silent = [(row.in_scope, float(not row.retrieved)) for row, _ in results]
    if len(kept.metrics) > 1:
        remember(Declaration(name=FOUND, about=f"weighted mean of {', '.join(kept.metrics)}"))
    scores: dict[str, list[ScoreValue | None]] = {
        (kept.metrics[0] if len(kept.metrics) == 1 else FOUND): [score for _, score in results],
        "scope/abstention": [None if in_scope else share for in_scope, share in silent],
        "scope/false_abstention": [share if in_scope else None for in_scope, share in silent],
    }
    passed: list[ScoreValue | None] = [
        None if row.outcome == "UNLABELLED" else float(row.outcome == "SUCCESS") for row, _ in results
    ]
    configuration, before = grid.configurations[number], report.config["retriever"]
    parameters = {name: value for name, value in configuration.parameters.items() if name in before}
    return Report(
        schema_version=SCHEMA_VERSION,
        name=names[place],
        run=names[place],
        passed=report.passed,
        settings=f"{configuration.name} · top_k {top_k}" + ("" if threshold is None else f" · threshold {threshold:g}"),
        facts=report.facts,
        config={**report.config, "retriever": {**before, **parameters, "top_k": top_k, "threshold": threshold}},
        metrics={name: mean_of(name, column) for name, column in {**scores, VERDICT_METRIC: passed}.items()},
        headline=list(scores),
        criteria=(),
        notes=[],
        chunks=kept.chunks,
        scores=scores,
        queries=[row for row, _ in results],
    )


def _places(grid: GridSection, names: Sequence[str], name: str) -> list[int]:
    """Return the places of the cells of a name.

    Its numbers may be written otherwise, as `t0.30`; of its retrieval the beginning or the end is enough where one
    alone has it, or nothing. The page reads names alike.
    """
    if name in names:
        return [names.index(name)]
    cells, cut = grid.cells, CUT.fullmatch(name.lower())
    if cut is None:
        return []
    retrieval, top_k, threshold = cut[1] or "", int(cut[2]), None if cut[3] is None else float(cut[3])
    cuts = enumerate(zip(cells.top_k, cells.threshold, strict=True))
    retrievals = {n: names[n].rpartition("-k")[0] for n, (k, t) in cuts if k == top_k and t == threshold}
    return [place for place, text in retrievals.items() if text == retrieval] or [
        place for place, text in retrievals.items() if text.startswith(retrieval) or text.endswith(f"-{retrieval}")
    ]


def _result(row: QueryRow, kept: ResultsByCell, which: int, top_k: int) -> tuple[QueryRow, float | None]:
    """Return what a cell returns of a query, and its score, None where it has none."""
    ids, chunks = [*kept.chunks], kept.lists[which][:top_k]
    score, passes = kept.found[which][len(chunks)], kept.passes[which][len(chunks)]
    hits = [
        Hit(rank=rank, chunk_id=ids[code], score=None, grade=row.relevant.get(ids[code], 0))
        for rank, code in enumerate(chunks, 1)
    ]
    fields = {"retrieved": hits, "best_below_threshold": [], "claims": [], "reasons": [], "cause": None}
    fields |= dict.fromkeys(("metadata_accuracy", "content_relevance", "accuracy_score"))
    outcome = "UNLABELLED" if passes < 0 else "SUCCESS" if passes else "FAILURE"
    return row.model_copy(update={**fields, "outcome": outcome}), None if score < 0 else kept.scores[score]


def mean_of(name: str, column: Sequence[ScoreValue | None]) -> Summary:
    """Return the mean of the scores of a metric."""
    scores = [float(score) for score in column if isinstance(score, float | int)]
    if not scores:
        return Summary(metric=name, value=None, n=0, note="it scores no query")
    return Summary(metric=name, value=sum(scores) / len(scores), n=len(scores))
