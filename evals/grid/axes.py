"""The plan of a sweep: one variant for every combination of settings that changes what is found. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pydantic import ValidationError

from evals.config.experiment import SweepConfig
from evals.errors import ExperimentError
from retrievers.config import FOREIGN_SETTINGS, RetrieverConfig

CELL_AXES = ("top_k", "threshold")
"""The axes that cut candidates. All other axes decide which candidates there are."""
VARIANT_AXES = tuple(name for name in SweepConfig.model_fields if name not in CELL_AXES)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to retrieve; the report calls it a configuration.

    Attributes:
        name: The settings in a few words, such as `hybrid weighted mmr`.
        parameters: The settings that decide what this variant finds, by name, and the candidate depth.
        settings: All settings, with the largest `top_k` and the lowest threshold of the sweep.
        thresholds: Thresholds of the cells, as many as every other variant has; a single 0 where none is in force.
    """

    name: str
    parameters: Mapping[str, Any]
    settings: RetrieverConfig
    thresholds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a grid.

    Attributes:
        variants: The variants.
        top_ks: The cuts.
        notes: Notes for the reader of the cells.
        axes: The values of each axis that the sweep names.
    """

    variants: tuple[Variant, ...]
    top_ks: tuple[int, ...]
    notes: tuple[str, ...] = ()
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def plan(base: RetrieverConfig, sweep: SweepConfig) -> Plan:
    """Return the variants and cuts of a sweep. Combinations that find the same are one variant.

    Args:
        base: Settings of the retriever. They hold where the sweep names no values.
        sweep: The sweep, with at least one axis.

    Raises:
        ExperimentError: A combination of settings is not valid. The message says what to do.
    """
    top_ks, thresholds = sweep.top_k or (base.top_k,), sweep.threshold or (base.threshold or 0.0,)
    for threshold in sweep.threshold:
        _combine(base, {"threshold": threshold})
    # The values of an axis ascend, so of the depths that find the same the smallest is taken.
    cut = {"top_k": max(top_ks), "threshold": min(sweep.threshold, default=base.threshold)}
    distinct = dict[tuple[tuple[str, Any], ...], RetrieverConfig]()
    axes = _axes_of(base, sweep.axes)
    for values in product(*(getattr(sweep, name) or (getattr(base, name),) for name in axes)):
        settings = _combine(base, dict(zip(axes, values, strict=True)) | cut)
        distinct.setdefault(tuple(effective(settings).items()), settings)
    # Of equal cells the first is preferred: one without a reranker.
    plain_first = sorted(distinct.values(), key=lambda settings: settings.rerank != "none")
    variants = tuple(_variant(settings, sweep, thresholds) for settings in plain_first)
    return Plan(variants=variants, top_ks=top_ks, axes=dict(sweep.axes))


def _combine(base: RetrieverConfig, changes: Mapping[str, Any]) -> RetrieverConfig:
    """Return the settings with some of them changed.

    Raises:
        ExperimentError: The settings are not valid.
    """
    try:
        return base.replaced_by(changes)
    except ValidationError as error:
        variant = ", ".join(f"{name} {value}" for name, value in changes.items() if name in VARIANT_AXES)
        raise ExperimentError(f"sweep: {_faults(error)}" + (f" (in {variant})" if variant else "")) from None


def effective(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings on which candidates depend, of those that a sweep may change.

    Equal results mean that the same candidates are found. A setting without a value is left out: the collection decides
    instead. Of a retriever of the user's own only the candidate depth can be set. How that retriever uses the depth is
    not known, so it always counts.
    """
    of_user = {} if settings.python is None else {"python": settings.python}
    is_hybrid, reranks = settings.mode == "hybrid", settings.rerank != "none"
    # True if chunks deep in the list can come first in the result; else the result is the beginning of the list.
    is_deep = settings.python is not None or settings.mode != "semantic" or reranks or settings.group_by is not None
    values = {
        "mode": settings.mode,
        "fusion": settings.fusion if is_hybrid else None,
        "rerank": settings.rerank,
        "candidates": settings.candidates if is_deep else None,
        "threshold_on": None if settings.threshold is None else settings.threshold_on,
    }
    return of_user | {name: values[name] for name in _axes_of(settings) if values[name] is not None}


def _axes_of(base: RetrieverConfig, swept: Iterable[str] = ()) -> list[str]:
    """Return the axes that decide what a retriever finds; of a user's retriever, those that are set or swept."""
    settable = {*FOREIGN_SETTINGS, *base.model_fields_set, *swept}
    return [name for name in VARIANT_AXES if base.python is None or name in settable]


def _faults(error: ValidationError) -> str:
    """Return the faults of settings. The fault of a single setting names the setting and its value."""
    faults = []
    for item in error.errors():
        text, name = str(item["msg"]).removeprefix("Value error, "), ".".join(map(str, item["loc"]))
        faults.append(f"{name}: {text}, got {item['input']!r}" if name else text)
    return "; ".join(faults)


def _variant(settings: RetrieverConfig, sweep: SweepConfig, thresholds: tuple[float, ...]) -> Variant:
    """Return a variant. Its name has mode, fusion and reranker, and other settings with several values."""
    deciding, always = effective(settings), ("python", "mode", "fusion", "rerank")
    parts = [deciding.get(axis, "") for axis in always]
    for axis in VARIANT_AXES:
        if axis in deciding and axis not in always and len(getattr(sweep, axis)) > 1:
            parts.append(f"{axis} {deciding[axis]}".removesuffix(".0"))
    name = " ".join(part for part in parts if part not in ("", "none"))
    parameters = {**deciding, "candidates": settings.candidates}
    return Variant(name=name, parameters=parameters, settings=settings, thresholds=thresholds)
