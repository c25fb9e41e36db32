"""Labels that runs contradict: evidence that nothing finds, and verdicts of a judge that differ. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evals.golden.audit.section import AuditSection, first_few
from evals.golden.case import Case
from evals.report.model import QueryRow

# Runs by name, each with its rows by case id, of the cases that are the same in the golden data.
Runs = Mapping[str, Mapping[str, QueryRow]]


def unfound(cases: Sequence[Case], runs: Runs) -> AuditSection:
    """Return the labelled queries of which no run found a relevant chunk among its candidates, and cases with a part.

    Args:
        cases: The golden queries.
        runs: The runs.
    """
    title = "Evidence that no run finds"
    every = {case.id: [rows[case.id] for rows in runs.values() if case.id in rows] for case in cases if case.in_scope}
    labelled = ((key, [row for row in rows if row.outcome != "UNLABELLED"]) for key, rows in every.items())
    seen = {key: rows for key, rows in labelled if rows}
    if any(every.values()) and not seen:
        return AuditSection(name="unfound", title=title, lines=("no query of the runs has labels",))
    if not seen:
        return AuditSection(name="unfound", title=title, lines=("not known: give reports of runs with --report",))
    queries = {case.id: case.query for case in cases}
    nowhere = [key for key, rows in seen.items() if all(row.first_relevant is None for row in rows)]
    never = {
        key: sorted(lost)
        for key, rows in seen.items()
        if (lost := set(rows[0].relevant) - {hit.chunk_id for row in rows for hit in row.retrieved})
    }
    examples = [f"{key}: {queries[key]!r}" for key in nowhere]
    return AuditSection(
        name="unfound",
        title=title,
        lines=(
            f"{len(nowhere)} of {len(seen)} queries have no relevant chunk among the candidates of {_all(runs)}"
            + (": wrong labels, or queries to improve the search with" if nowhere else ""),
            *first_few(examples),
            f"{sum(map(len, never.values()))} relevant chunks of {len(never)} queries are returned by no run",
        ),
        figures={"queries": nowhere, "chunks_never_returned": never, "runs": list(runs)},
        doubtful=bool(nowhere),
    )


def _all(runs: Runs) -> str:
    return "the run" if len(runs) == 1 else f"any of {len(runs)} runs"


def contradicted(runs: Runs) -> AuditSection:
    """Return the labels that the judge of some run contradicts, by query and chunk.

    Args:
        runs: The runs, with the judge's verdict on each returned chunk where there was a judge.
    """
    title = "Labels that the judge contradicts"
    verdicts = {
        (key, hit.chunk_id): (row, hit)
        for rows in runs.values()
        for key, row in rows.items()
        for hit in row.retrieved
        if row.outcome != "UNLABELLED" and hit.verdict is not None
    }
    if not verdicts:
        return AuditSection(
            name="contradicted", title=title, lines=("not known: give the report of a judged run with --report",)
        )
    differing = []
    for (key, chunk_id), (row, hit) in verdicts.items():
        label = "relevant" if hit.grade else "not relevant" if chunk_id in row.irrelevant else "unlabelled"
        useful = bool(hit.verdict)
        if (label == "relevant") != useful:
            judged = "useful" if useful else "useless"
            differing.append(
                {
                    "query": key,
                    "chunk": chunk_id,
                    "source": hit.source,
                    "label": label,
                    "judged": judged,
                    "reason": hit.said,
                }
            )
    counts = Counter((pair["label"], pair["judged"]) for pair in differing)
    # A label against a verdict is doubtful; a useful chunk without a label may only be missing.
    differing.sort(key=lambda pair: (pair["label"] == "unlabelled", str(pair["query"])))
    examples = [
        f"{pair['query']}: {pair['source']} is labelled {pair['label']}, judged {pair['judged']}" for pair in differing
    ]
    parts = [f"{count} {label} by the labels and {judged} to the judge" for (label, judged), count in counts.items()]
    return AuditSection(
        name="contradicted",
        title=title,
        lines=(
            f"of {len(verdicts)} verdicts {', '.join(parts) or 'none differs'}",
            *first_few(examples),
        ),
        figures={"verdicts": len(verdicts), "differing": differing},
        doubtful=any(pair["label"] != "unlabelled" for pair in differing),
    )
