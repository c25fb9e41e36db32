"""A sweep to the retrievals it takes: one for every combination of settings that changes what is found. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pydantic import ValidationError

from evals.config.experiment import SweepConfig
from evals.errors import ExperimentError
from retrievers.config import FOREIGN_SETTINGS, RetrieverConfig

CELL_AXES = ("top_k", "threshold")
"""The axes that cut candidates; all others decide which candidates there are."""
VARIANT_AXES = tuple(name for name in SweepConfig.model_fields if name not in CELL_AXES)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to retrieve, a configuration of the report.

    Attributes:
        name: Its settings in a few words, such as `hybrid weighted mmr`.
        parameters: The settings that are swept and those that are in its name, without any that change nothing in it.
        settings: All settings, with the largest `top_k` and the threshold of the sweep that leaves most.
        thresholds: Of its cells, as they are shown, as many as every other has; a single 0 where none is in force.
    """

    name: str
    parameters: Mapping[str, Any]
    settings: RetrieverConfig
    thresholds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a grid.

    Attributes:
        axes: Each axis that was given values, with them.
        notes: What a reader of the cells must know.
    """

    variants: tuple[Variant, ...]
    top_ks: tuple[int, ...]
    notes: tuple[str, ...] = ()
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def plan(base: RetrieverConfig, sweep: SweepConfig) -> Plan:
    """Return every combination of the sweep, checked; those that find the same are one.

    Args:
        base: The retriever, whose settings hold where the sweep names none.
        sweep: At least one axis.

    Raises:
        ExperimentError: A combination cannot be, with what to do.
    """
    top_ks, thresholds = sweep.top_k or (base.top_k,), sweep.threshold or (base.threshold or 0.0,)
    for threshold in sweep.threshold:
        _checked(base, {"threshold": threshold})
    # Ascending: the first threshold leaves most, and of depths that find the same the first is the least.
    cut = {"top_k": max(top_ks), "threshold": min(sweep.threshold, default=base.threshold)}
    distinct = dict[tuple[tuple[str, Any], ...], RetrieverConfig]()
    for changes in _combinations(base, sweep):
        settings = _checked(base, changes | cut)
        distinct.setdefault(tuple(effective(settings).items()), settings)
    variants = tuple(_named(settings, sweep, thresholds) for settings in distinct.values())
    return Plan(variants=variants, top_ks=top_ks, axes=dict(sweep.axes))


def _checked(base: RetrieverConfig, changes: Mapping[str, Any]) -> RetrieverConfig:
    """Return the settings of a combination.

    Raises:
        ExperimentError: They cannot be.
    """
    try:
        return base.replaced_by(changes)
    except ValidationError as error:
        named = ", ".join(f"{name} {value}" for name, value in changes.items() if name in VARIANT_AXES)
        raise ExperimentError(f"sweep: {_said(error)}" + (f" (in {named})" if named else "")) from None


def effective(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings on which candidates depend, of those that a sweep may change; equal ones find the same.

    One that has no value is left out: then the collection decides, or the candidate depth. Only that depth can be set
    for a retriever of the user's own, and what it means there is not known.
    """
    own = {} if settings.python is None else {"python": settings.python}
    is_hybrid, reranks = settings.mode == "hybrid", settings.rerank != "none"
    # Chunks deep in the list decide what comes first; otherwise the answer is its beginning.
    is_deep = settings.python is not None or settings.mode != "semantic" or reranks or settings.group_by is not None
    values = {
        "mode": settings.mode,
        "fusion": settings.fusion if is_hybrid else None,
        "rerank": settings.rerank if reranks else "none",
        "candidates": settings.candidates if is_deep else None,
        "threshold_on": None if settings.threshold is None else settings.threshold_on,
    }
    return own | {name: values[name] for name in _axes_of(settings) if values[name] is not None}


def _axes_of(base: RetrieverConfig, swept: Iterable[str] = ()) -> list[str]:
    """Return the axes that decide what a retriever finds: of the user's own those that are set or swept."""
    named = {*FOREIGN_SETTINGS, *base.model_fields_set, *swept}
    return [name for name in VARIANT_AXES if base.python is None or name in named]


def _combinations(base: RetrieverConfig, sweep: SweepConfig) -> Iterator[dict[str, Any]]:
    axes = _axes_of(base, sweep.axes)
    for combination in product(*(getattr(sweep, name) or (getattr(base, name),) for name in axes)):
        yield dict(zip(axes, combination, strict=True))


def _said(error: ValidationError) -> str:
    """Return the faults of settings; a fault of one of them names it and its value."""
    faults = []
    for item in error.errors():
        text, name = str(item["msg"]).removeprefix("Value error, "), ".".join(map(str, item["loc"]))
        faults.append(f"{name}: {text}, got {item['input']!r}" if name else text)
    return "; ".join(faults)


def _named(settings: RetrieverConfig, sweep: SweepConfig, thresholds: tuple[float, ...]) -> Variant:
    """Name a variant: by mode, fusion and reranker always, by other settings where they are swept."""
    means = effective(settings)
    always = ("python", "mode", "fusion", "rerank")
    several = [name for name in VARIANT_AXES if name in means and name not in always and len(getattr(sweep, name)) > 1]
    swept = (f"{name} {means[name]}".removesuffix(".0") for name in several)
    shown = [*(means.get(name, "") for name in always), *swept]
    name = " ".join(part for part in shown if part not in ("", "none"))
    parameters = {**means, "candidates": settings.candidates}
    return Variant(name=name, parameters=parameters, settings=settings, thresholds=thresholds)
