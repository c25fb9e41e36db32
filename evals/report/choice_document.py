"""The choice among the cells of a grid, as JSON values for the report."""

from dataclasses import asdict
from typing import Any

from evals.grid.choice import Choice, HeldOut, Standing, explain

MOST_STANDINGS = 200
"""Standings beyond these are left out, from the end; members of the confidence set are all there."""


def choice_section(choice: Choice, held_out: HeldOut | None) -> dict[str, Any]:
    """Which cell is recommended and why, the confidence set of best cells, and the figure on held-out queries."""
    shown = [s for place, s in enumerate(choice.standings) if place < MOST_STANDINGS or s.in_set]
    return {
        "explanation": list(explain(choice)),
        "objective": choice.objective,
        "margin": choice.margin,
        "n": choice.n,
        "dropped": choice.dropped,
        "cells": choice.n_cells,
        "allowed": choice.n_allowed,
        "best": choice.best.cell,
        "recommended": choice.recommended.cell,
        "proved": choice.proved,
        "reason": choice.reason,
        "queries_needed": choice.queries_needed,
        "note": choice.note,
        "set": [standing.cell for standing in choice.best_set],
        "standings": [_standing(standing) for standing in shown],
        "held_out": asdict(held_out) if held_out else None,
    }


def _standing(standing: Standing) -> dict[str, Any]:
    found = asdict(standing)
    interval = found.pop("interval")
    return {**found, "members": list(standing.members), "ci_low": interval["low"], "ci_high": interval["high"]}
