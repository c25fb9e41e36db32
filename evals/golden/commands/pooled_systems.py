"""The systems of a pool: saved retrievals, and a retriever that is asked now."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evals.collect.passes import collect
from evals.collect.saved import read
from evals.errors import DatasetError
from evals.experiment.facts import collection_facts
from evals.golden.case import Case
from retrievers.config import RetrieverConfig, dump
from retrievers.config.layers import build, environment, environment_layer, file_layer, flag_layer, flatten
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever

DepthOf = Callable[[Mapping[str, Any]], int]


@dataclass(frozen=True, kw_only=True)
class System:
    """What a system of the pool ranked highest.

    Attributes:
        name: File of the retrieval, with the number of its variant where it holds several, or name of the settings.
        collection: Facts of the collection, None where they are not known.
        depth: Depth to which it is pooled.
        chunks: Its best chunks by case id.
    """

    name: str
    collection: Mapping[str, Any] | None
    depth: int
    chunks: Mapping[str, Sequence[Chunk]]


def systems(namespace: argparse.Namespace, cases: Sequence[Case], depth_of: DepthOf) -> Iterator[System]:
    """Yield the systems of the pool: each variant of the saved retrievals, and the retriever that is asked now.

    Args:
        namespace: The arguments of the command.
        cases: The cases.
        depth_of: Settings of a retrieval, by dotted name, to the depth that is pooled; 0 to leave it out.

    Raises:
        DatasetError: None is named.
        RetrievalError: A saved retrieval cannot be read, or the retriever failed.
    """
    ids = {case.id for case in cases}
    for file in namespace.pool:
        saved = read(file, "--pool")
        for number, variant in enumerate(saved.origin.variants):
            if not (depth := depth_of(variant.settings)):
                continue
            rows = zip(saved.ids, saved.table(number, np.arange(len(saved.ids))), strict=True)
            chunks = {case_id: _first(candidates.chunks, depth) for case_id, candidates in rows if case_id in ids}
            name = f"{file.name}#{number + 1}" if len(saved.lists) > 1 else file.name
            yield System(name=name, collection=saved.origin.collection, depth=depth, chunks=chunks)
    flags = flag_layer(namespace, RetrieverConfig)
    if namespace.config or flags.values:
        env = environment(os.environ)
        layers = [
            environment_layer(env),
            *([file_layer(namespace.config, RetrieverConfig)] if namespace.config else []),
        ]
        config = build(RetrieverConfig, [*layers, flags])
        if not (depth := depth_of(dict(flatten(dump(config))))):
            return
        with open_retriever(config, env=env) as retriever:
            table = collect(retriever, cases, lambda stage, done, total: None)
            chunks = {case.id: _first(candidates.chunks, depth) for case, candidates in zip(cases, table, strict=True)}
            facts = collection_facts(retriever)
        name = namespace.config.name if namespace.config else config.collection
        collection = None if facts is None else facts.model_dump(mode="json")
        yield System(name=name, collection=collection, depth=depth, chunks=chunks)
    elif not namespace.pool:
        raise DatasetError("there is no pool: name saved retrievals with --pool FILE, or a retriever by --config FILE")


def _first(chunks: Sequence[Chunk], depth: int) -> list[Chunk]:
    return [chunk for chunk in chunks[:depth] if chunk.text.strip()]


def check_one_collection(pooled: Sequence[System]) -> None:
    """Make sure that all systems searched the same collection, as far as that is known.

    Raises:
        DatasetError: Two did not.
    """
    named = [(system.name, system.collection) for system in pooled if system.collection]
    for name, facts in named[1:]:
        first, expected = named[0]
        if facts["fingerprint"] != expected["fingerprint"]:
            raise DatasetError(
                f"the pool is of different collections: {first} of {expected['name']!r} ({expected['points']:,} "
                f"points), {name} of {facts['name']!r} ({facts['points']:,} points); chunk ids of one mean nothing in "
                "the other. Retrieve both from the same collection"
            )
