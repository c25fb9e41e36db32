"""A synthesis as cases, and in lines: queries by type, the reasons of those dropped or mended. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.golden.synthesis.case_writing import Attempt
from evals.golden.synthesis.objections import KINDS, Objection, holder
from evals.golden.synthesis.prompts import DraftCase
from evals.judge.budget import Usage
from retrievers.records import Chunk

# Characters of an example.
LONGEST = 100
# Grade of a passage that answers.
GRADE = 3
TAG = "synthetic"


def summary(attempts: Sequence[Attempt], counts: Mapping[str, int], redraws: int, usage: Usage) -> list[str]:
    """Return the lines: queries by type, reasons with an example of each, missing queries, splits, and the cost.

    Args:
        attempts: All queries, those in place of dropped ones among them.
        counts: Number of queries wanted, by type.
        redraws: Most draws in place of dropped queries.
        usage: What was bought.
    """
    by_type = {
        name: [attempt for attempt in attempts if attempt.assignment.type_name == name]
        for name, count in counts.items()
        if count
    }
    table = [_row(name, counts[name], those) for name, those in by_type.items()]
    dropped = [attempt for attempt in attempts if attempt.objection]
    mended = [attempt for attempt in attempts if attempt.kept and attempt.mended]
    splits = Counter(attempt.assignment.split for attempt in attempts if attempt.kept)
    price = "" if usage.usd is None else f", {usage.usd:,.4f} USD"
    return [
        f"  {'type':<12} {'wanted':>7} {'kept':>7} {'mended':>7} {'dropped':>7}",
        *table,
        _row("all", sum(counts.values()), attempts),
        *_reasons("dropped", [(attempt, attempt.objection) for attempt in dropped]),
        *_reasons("mended", [(attempt, attempt.mended) for attempt in mended]),
        *_missing(by_type, counts, redraws),
        f"  splits by page: {', '.join(f'{split}: {count}' for split, count in sorted(splits.items())) or 'none'}",
        f"  {usage.calls:,} calls, {usage.hits:,} answers from the store, {usage.tokens:,} tokens{price}",
    ]


def _row(name: str, wanted: int, attempts: Sequence[Attempt]) -> str:
    written = [attempt for attempt in attempts if attempt.kept]
    counts = (wanted, len(written), sum(query.mended is not None for query in written), _dropped(attempts))
    return f"  {name:<12} " + " ".join(f"{count:>7}" for count in counts)


def _dropped(attempts: Sequence[Attempt]) -> int:
    return sum(attempt.objection is not None for attempt in attempts)


def _missing(by_type: Mapping[str, Sequence[Attempt]], counts: Mapping[str, int], redraws: int) -> list[str]:
    """Return the queries missing although passages were drawn again, and how to get them."""
    if any(attempt.unasked for attempts in by_type.values() for attempt in attempts):
        return []
    numbers = {name: sum(attempt.kept for attempt in attempts) for name, attempts in by_type.items()}
    lacking = {name: counts[name] - count for name, count in numbers.items() if 0 < count < counts[name]}
    none = [name for name, count in numbers.items() if not count]
    more = (
        f"  missing: {', '.join(f'{name} {count}' for name, count in lacking.items())}; --redraws {2 * redraws or 3} "
    )
    return [
        *([f"{more}--force draws further passages for them, and buys nothing twice"] if lacking else []),
        *([f"  of {', '.join(none)} no query passed its checks, so that none was drawn again"] if none else []),
    ]


def _reasons(title: str, pairs: Sequence[tuple[Attempt, Objection | None]]) -> list[str]:
    """Return a line for each kind of objection, the most frequent first, with the first example."""
    kinds: dict[str, list[tuple[Attempt, Objection]]] = {}
    for attempt, objection in pairs:
        if objection:
            kinds.setdefault(objection.kind, []).append((attempt, objection))
    ordered = sorted(kinds.items(), key=lambda entry: (-len(entry[1]), list(KINDS).index(entry[0])))
    return [f"  {title} {len(those)}: {KINDS[kind]} ({_example(*those[0])})" for kind, those in ordered]


def _example(attempt: Attempt, objection: Objection) -> str:
    text = " ".join(f"{attempt.assignment.id}: {objection.detail}".rstrip(": ").split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def written_cases(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the kept queries as rows of a golden file, in their order."""
    return [_case_row(attempt) for attempt in attempts if attempt.kept]


def _case_row(attempt: Attempt) -> dict[str, Any]:
    assignment, draft = attempt.assignment, attempt.draft
    assert draft is not None
    row: dict[str, Any] = {"id": assignment.id, "query": draft.query.strip()}
    if isinstance(draft, DraftCase):
        row["reference_answer"] = draft.reference_answer.strip()
        row["evidence"] = [_evidence(quote, assignment.passages) for quote in dict.fromkeys(draft.quotes)]
    return row | {
        "in_scope": assignment.type.in_scope,
        "query_type": assignment.type_name,
        "tags": [TAG],
        "split": assignment.split,
    }


def _evidence(quote: str, passages: Sequence[Chunk]) -> dict[str, Any]:
    chunk = holder(quote, passages)
    assert chunk is not None
    evidence = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote.strip(), "grade": GRADE}
    return {name: value for name, value in evidence.items() if value}
