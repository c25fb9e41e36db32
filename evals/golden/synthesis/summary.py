"""A synthesis in lines: queries by type, and the reasons of those dropped or mended. Pure."""

from collections import Counter
from collections.abc import Sequence

from evals.golden.synthesis.case_writing import Attempt
from evals.golden.synthesis.objections import KINDS, Objection
from evals.judge.ask.budget import Usage

# Characters of an example.
LONGEST = 100


def summary(attempts: Sequence[Attempt], usage: Usage) -> list[str]:
    """Return the lines: a table by type, the reasons with an example of each, splits, and the cost."""
    names = list(dict.fromkeys(attempt.assignment.type_name for attempt in attempts))
    table = [_row(name, [one for one in attempts if one.assignment.type_name == name]) for name in names]
    dropped = [one for one in attempts if one.objection]
    mended = [one for one in attempts if one.kept and one.mended]
    splits = Counter(one.assignment.split for one in attempts if one.kept)
    price = "" if usage.usd is None else f", {usage.usd:,.4f} USD"
    return [
        f"  {'type':<12} {'wanted':>7} {'kept':>7} {'mended':>7} {'dropped':>7}",
        *table,
        _row("all", attempts),
        *_reasons("dropped", [(one, one.objection) for one in dropped]),
        *_reasons("mended", [(one, one.mended) for one in mended]),
        f"  splits by page: {', '.join(f'{split}: {count}' for split, count in sorted(splits.items())) or 'none'}",
        f"  {usage.calls:,} calls, {usage.hits:,} answers from the store, {usage.tokens:,} tokens{price}",
    ]


def _row(name: str, attempts: Sequence[Attempt]) -> str:
    kept = [attempt for attempt in attempts if attempt.kept]
    counts = (len(attempts), len(kept), sum(one.mended is not None for one in kept), _dropped(attempts))
    return f"  {name:<12} " + " ".join(f"{count:>7}" for count in counts)


def _dropped(attempts: Sequence[Attempt]) -> int:
    return sum(attempt.objection is not None for attempt in attempts)


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
