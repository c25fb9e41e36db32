"""A saved retrieval in place of searches: does it fit, and how is it saved."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.cases.reading import GoldenSet, case_fingerprint
from evals.collect.index_recall import is_approximate
from evals.collect.pool import Find, Pool, ground
from evals.errors import ExperimentError
from evals.experiment.bench import outdated
from evals.experiment.inputs import Inputs
from evals.grid.axes import VARIANT_AXES, dotted, effective
from evals.grid.measure import alone, metrics_of, retrieve
from evals.metrics import needs
from evals.metrics.collaborators import Collaborators
from evals.report.model import Facts
from retrievers.config import RetrieverConfig
from retrievers.config.indexing import recorded_settings
from retrievers.config.layers import flatten, tables
from retrievers.errors import CollectionChangedError
from retrievers.store import check_index

if TYPE_CHECKING:
    from evals.collect.saved import SavedPool

# Settings that cut candidates, or say where and with what patience they are got, but not which they are.
FREE = frozenset("top_k threshold threshold_on group_by trust_embedding metadata.required".split())
FREE_GROUPS = ("store.",)
FREE_ENDINGS = (".api_key_env", ".timeout_s", ".base_url")


def finders(inputs: Inputs, collaborators: Collaborators, saved: "SavedPool | None") -> list[Find]:
    """Return what finds the golden queries, and the held-out ones where there are any.

    What is relevant to all of them is looked up now, so that a fault in the golden data costs no search.

    Args:
        inputs: The experiment.
        collaborators: Retrievers and source pages.
        saved: A pool in place of searches (see `fitting`).

    Raises:
        DatasetError: Evidence does not resolve; every fault is listed.
        StoreError: The collection cannot be read.
    """
    if saved:
        return [partial(saved.pool, golden.cases) for golden in _splits(inputs)]
    config, sweep = inputs.config, inputs.sweep
    metrics = [*metrics_of(config, sweep, approximate=any(map(is_approximate, collaborators.retrievers)))]

    def finder(golden: GoldenSet, names: Sequence[str]) -> Find:
        grounds = ground(golden, collaborators.retriever, collaborators.sources)
        whole = sweep or alone(config)
        return partial(retrieve, whole, golden, grounds, collaborators, exactly=needs(names, "index"))

    names = metrics, [*config.objective.metrics]
    return [finder(golden, each) for golden, each in zip(_splits(inputs), names, strict=False)]


def _splits(inputs: Inputs) -> list[GoldenSet]:
    return [inputs.golden, *([inputs.held_out] if inputs.held_out else [])]


def fitting(file: Path, saved: "SavedPool", inputs: Inputs) -> "SavedPool":
    """Return what an experiment needs of a saved pool: its own variants, in their order.

    Args:
        file: The file, for messages.
        saved: All that is in it.
        inputs: The experiment.

    Raises:
        ExperimentError: It was retrieved otherwise, or for other golden data, or the experiment needs searches.
    """
    config, origin = inputs.config, saved.origin

    def refused(expected: str, got: str) -> ExperimentError:
        remedy = "save it again with --save-retrieval, or leave --from-retrieval out"
        return ExperimentError(f"--from-retrieval {file}: expected {expected}, got {got}; {remedy}")

    apart = [name for name in config.objective.constraints if needs([name], "latency") or needs([name], "determinism")]
    if inputs.sweep and apart:
        raise refused("constraints without searches", f"objective.constraints {apart[0]}")
    for name, (recorded, wanted) in outdated(config, origin.indexed).items():
        raise refused(f"{name} {recorded!r} of the collection that was searched", f"{wanted!r}")
    if origin.collection:
        check_index(config.index, origin.collection["name"], recorded_settings(origin.indexed))
    for case in (case for golden in _splits(inputs) for case in golden.cases):
        if case_fingerprint(case) not in saved.rows:
            got = "another query, other labels or another reference answer" if case.id in saved.ids else "a new case"
            raise refused(f"case {case.id!r} as it was saved", got)
    chosen = []
    for settings in (variant.settings for variant in (inputs.sweep or alone(config)).variants):
        given, depth, exact = _deciding(settings), settings.candidates, "candidates" in effective(settings)
        # A setting that is newer than the file had no value then.
        differing = [
            [
                (dotted(name), one.settings.get(name), given.get(name))
                for name in {**given, **one.settings}
                if one.settings.get(name) != given.get(name)
            ]
            for one in origin.variants
        ]
        depths = {number: origin.variants[number].depth for number, names in enumerate(differing) if not names}
        fits = [number for number, most in depths.items() if most == depth or (most > depth and not exact)]
        if not fits and depths:
            raise refused(f"retriever.candidates as saved, {max(depths.values()):,}", f"{depth:,}")
        if not fits:
            name, was, asked = min(differing, key=len)[0]
            raise refused(f"retriever.{name} {was!r}, with which it was saved", f"{asked!r}")
        chosen.append((fits[0], depth))
    return saved.only(chosen)


def _deciding(settings: RetrieverConfig) -> dict[str, Any]:
    """Return the settings on which the candidates depend, but for their depth, by dotted name, as JSON values."""
    swept = {axis.setting for axis in VARIANT_AXES.values()}
    idle = [
        *(["cross_encoder."] if settings.rerank != "cross-encoder" else []),
        *(["keyword."] if settings.mode == "semantic" else []),
        *FREE_GROUPS,
    ]
    plain = flatten(settings.model_dump(mode="json"), unopened=tables(RetrieverConfig))
    others = {"distance": settings.distance} | {
        name: value
        for name, value in plain
        if name not in swept | FREE and not name.startswith(tuple(idle)) and not name.endswith(FREE_ENDINGS)
    }
    decided = {name: value for name, value in effective(settings).items() if name not in ("candidates", *FREE)}
    settings_in_json: dict[str, Any] = json.loads(json.dumps(decided | others, default=str))
    return settings_in_json


def save(file: Path, pool: Pool, held_out: Sequence[Find], facts: Facts, collaborators: Collaborators) -> None:
    """Write what a run has found, and finds for held-out queries, to a file.

    Args:
        file: The file.
        pool: What it found for the golden queries.
        held_out: What finds the held-out ones; empty without any.
        facts: The facts of the run.
        collaborators: The retrievers, still open.

    Raises:
        ConfigError: It cannot be written.
        RetrievalError: The store failed, or the collection changed during the run.
    """
    if facts.collection_changed:
        raise CollectionChangedError(
            f"--save-retrieval {file}: not saved, for the collection changed during the run: "
            f"{facts.collection_changed}; run again while nobody writes to it"
        )
    from evals.collect.saved import Origin, Searched, write

    retrievers, info = collaborators.retrievers, collaborators.retriever.info
    pools = [pool, *(find(range(len(retrievers))) for find in held_out)]
    origin = Origin(
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        variants=tuple(
            Searched(
                settings=_deciding(retriever.settings),
                depth=retriever.settings.candidates,
                label=retriever.label,
                embedding=retriever.embedding_label,
                notes=notes,
            )
            for retriever, notes in zip(retrievers, pool.notes, strict=True)
        ),
        collection=facts.collection.model_dump(mode="json", exclude_unset=True) if facts.collection else None,
        indexed=dict(info.manifest) if info else {},
        versions=facts.versions,
    )
    write(file, pools, origin)
