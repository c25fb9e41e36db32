"""The metrics that the terminal shows beside those that have a criterion; the report has them all. Pure."""

from collections.abc import Collection, Sequence

from evals.metrics import declared


def headline(*measured: Collection[str]) -> list[str]:
    """Return the metrics of runs that are shown, in their order; `_at_K` at the deepest that all of the runs have.

    Args:
        measured: The metrics of each run.
    """
    every = dict.fromkeys(name for names in measured for name in names)
    return [name for name in every if _is_shown(name, measured)]


def _is_shown(name: str, measured: Sequence[Collection[str]]) -> bool:
    shown = declared(name).headline
    return shown == "always" or (
        shown == "at the deepest" and name == deepest(name.rstrip("0123456789") + "K", *measured)
    )


def deepest(pattern: str, *measured: Collection[str]) -> str:
    """Return the deepest name for a pattern that ends in `_at_K`, of those that all runs have; others as they are."""
    stem = pattern.removesuffix("K")
    if stem == pattern:
        return pattern
    known = [{int(name.removeprefix(stem)) for name in names if name.startswith(stem)} for names in measured]
    depths = set.intersection(*known) or set.union(*known)
    return f"{stem}{max(depths)}" if depths else pattern
