"""A sweep to the retrievals it takes: one for every combination of settings that changes what is found. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from typing import Any

from pydantic import ValidationError

from evals.config.sweep import SweepConfig
from evals.errors import ExperimentError
from retrievers.config import FOREIGN_SETTINGS, RetrieverConfig

CELL_AXES = ("top_k", "threshold")
"""The axes that cut candidates; all others decide which candidates there are."""
GROUPS = {"term_counts": "keyword"}
"""The axes that are a setting of a group."""
SHOWN = ("mode", "fusion", "rerank", "candidates")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to retrieve.

    Attributes:
        name: Its settings in a few words, such as `hybrid weighted mmr`.
        parameters: The settings that are swept or tell it apart, and mean something in it.
        settings: All settings, with the largest `top_k` and the smallest threshold of the sweep.
    """

    name: str
    parameters: Mapping[str, Any]
    settings: RetrieverConfig


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a grid takes.

    Attributes:
        thresholds: None for every observed score; a single 0 where none is in force.
        notes: Which combinations were left out or are one, and why.
    """

    variants: tuple[Variant, ...]
    top_ks: tuple[int, ...]
    thresholds: tuple[float, ...] | None
    notes: tuple[str, ...]


def plan(base: RetrieverConfig, sweep: SweepConfig) -> Plan:
    """Every combination of the sweep, checked; those that find the same are one.

    Args:
        base: The retriever, whose settings hold where the sweep names none.
        sweep: At least one axis.

    Raises:
        ExperimentError: A combination cannot be, with what to do; all faults at once.
    """
    _refuse_idle(base, sweep)
    top_ks = sweep.top_k or (base.top_k,)
    cut: dict[str, Any] = {"top_k": max(top_ks)}
    thresholds: tuple[float, ...] | None = (0.0,)
    if sweep.threshold or base.used_threshold is not None:
        thresholds = None if sweep.threshold == "exact" else sweep.threshold or (base.threshold,)
        cut["threshold"] = min(thresholds) if thresholds else 0.0
    found: dict[tuple[tuple[str, Any], ...], RetrieverConfig] = {}
    faults: dict[str, list[str]] = {}
    notes: dict[str, None] = {}
    for changes in _combinations(base, sweep):
        if changes.get("rerank") == "rrf" and changes["mode"] != "hybrid":
            notes[f"rerank rrf fuses two searches: left out in mode {changes['mode']}"] = None
            continue
        try:
            settings = _changed(base, changes | cut)
        except ValidationError as error:
            faults.setdefault(_said(error), []).append(
                ", ".join(f"{name} {changes[name]}" for name in SHOWN if name in changes)
            )
            continue
        key = tuple(effective(settings).items())
        if key in found and found[key].candidates != settings.candidates:
            notes[f"the candidate depth changes nothing in mode {settings.mode} without reranking: one for all"] = None
        found[key] = min(found.get(key, settings), settings, key=lambda one: one.candidates)
    _refuse(faults)
    if not found:
        raise ExperimentError("sweep: no combination is left: " + "; ".join(notes))
    return Plan(variants=_named(list(found.values()), sweep), top_ks=top_ks, thresholds=thresholds, notes=tuple(notes))


def effective(settings: RetrieverConfig) -> dict[str, Any]:
    """The settings that decide what is found, of those a sweep may change; equal ones find the same.

    Fusion and its weight mean something in hybrid alone, and the candidate depth nothing where the answer is the
    beginning of the list: in semantic search without reranking and grouping. What it means to a retriever that is not
    ours is not known.
    """
    if settings.python is not None:
        return {"python": settings.python, "candidates": settings.candidates}
    found: dict[str, Any] = {"mode": settings.mode}
    if settings.mode == "hybrid":
        found["fusion"] = settings.used_fusion
        if settings.used_fusion != "dbsf":
            found["semantic_weight"] = settings.semantic_weight
        if settings.used_fusion == "rrf":
            found["rrf_constant"] = settings.rrf_constant
    if settings.mode != "semantic":
        found["term_counts"] = settings.keyword.term_counts
    found["rerank"] = "none" if settings.rerank == "rrf" else settings.rerank
    if settings.rerank == "mmr":
        found["mmr_lambda"] = settings.mmr_lambda
    if not (settings.mode == "semantic" and found["rerank"] == "none" and settings.group_by is None):
        found["candidates"] = settings.candidates
    return found


def dotted(axis: str) -> str:
    """The setting that an axis changes, by its dotted name."""
    return f"{GROUPS[axis]}.{axis}" if axis in GROUPS else axis


def setting_of(settings: RetrieverConfig, axis: str) -> Any:
    """What the settings say of an axis."""
    return attrgetter(dotted(axis))(settings)


def _combinations(base: RetrieverConfig, sweep: SweepConfig) -> Iterator[dict[str, Any]]:
    known = [name for name in SweepConfig.model_fields if name not in CELL_AXES]
    names = known if base.python is None else [name for name in known if name in FOREIGN_SETTINGS]
    values = [getattr(sweep, name) or (setting_of(base, name),) for name in names]
    for combination in product(*values):
        yield dict(zip(names, combination, strict=True))


def _changed(base: RetrieverConfig, changes: Mapping[str, Any]) -> RetrieverConfig:
    """The settings with others, checked."""
    own = (
        {"keyword_weight": None} if changes.get("semantic_weight", base.semantic_weight) != base.semantic_weight else {}
    )
    plain = base.model_dump()
    grouped = {group: {**plain[group], axis: changes[axis]} for axis, group in GROUPS.items() if axis in changes}
    direct = {name: changed for name, changed in changes.items() if name not in GROUPS}
    return RetrieverConfig.model_validate({**plain, **own, **grouped, **direct})


def _said(error: ValidationError) -> str:
    """What is wrong with settings; a fault of one of them names it and its value."""
    faults = []
    for item in error.errors():
        text, name = str(item["msg"]).removeprefix("Value error, "), ".".join(map(str, item["loc"]))
        faults.append(f"{name}: {text}, got {item['input']!r}" if name else text)
    return "; ".join(faults)


def _refuse_idle(base: RetrieverConfig, sweep: SweepConfig) -> None:
    """Refuse to sweep what a retriever that is not ours settles by itself."""
    idle = [name for name in sweep.axes if base.python is not None and name not in FOREIGN_SETTINGS]
    if idle:
        raise ExperimentError(
            f"sweep: {', '.join(idle)} cannot be set for python {base.python!r}, which settles them by itself; sweep "
            "top_k, threshold and candidates, or leave out retriever.python to evaluate QdrantRetriever"
        )


def _refuse(faults: Mapping[str, Sequence[str]]) -> None:
    lines = []
    for said, combinations in faults.items():
        others = len(set(combinations)) - 1
        lines.append(f"sweep: {said} (in {combinations[0]}{f' and {others} others' if others else ''})")
    if lines:
        raise ExperimentError("\n".join(lines))


def _named(variants: Sequence[RetrieverConfig], sweep: SweepConfig) -> tuple[Variant, ...]:
    """Each with what it is told apart by: mode, fusion and reranker always, other settings where they are swept."""
    made = []
    for settings in variants:
        means = effective(settings)
        shown = [str(means.get(name, "")) for name in ("python", "mode", "fusion", "rerank")]
        numbers = [
            f"{name} {means[name]:g}" if name != "term_counts" else f"{name} {str(means[name]).lower()}"
            for name in ("semantic_weight", "rrf_constant", "mmr_lambda", "candidates", "term_counts")
            if name in means and len(getattr(sweep, name)) > 1
        ]
        made.append(
            Variant(
                name=" ".join(part for part in [*shown, *numbers] if part not in ("", "none")),
                parameters={**means, "candidates": settings.candidates},
                settings=settings,
            )
        )
    return tuple(made)
