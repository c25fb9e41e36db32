"""Writing a saved retrieval: three Parquet files and a manifest, whole or not at all."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evals.collect.saved.layout import CHUNKS, HINTS, QUERIES, SCHEMA_VERSION, TABLES, digest
from evals.collect.saved.retriever import SavedRetrieval, SavedVariant
from evals.collect.saved.writable import MANIFEST
from retrievers.errors import ConfigError
from retrievers.search.candidate_table import CandidateTable

INFO = ("name", "points", "dimension", "distance", "vectors", "sparse_vectors", "manifest", "shards")


def write_folder(folder: Path, retrieval: SavedRetrieval) -> None:
    """Write a retrieval to a folder, in place of one that was saved there before.

    Raises:
        ConfigError: It cannot be written.
    """
    part = folder.absolute().with_name(f".{uuid4().hex}.part")
    replaced = part.with_suffix(".old")
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        part.mkdir(mode=0o700)
        for name, table in _tables(retrieval).items():
            pq.write_table(table, part / f"{name}.parquet", **_encoding(table.schema))
        manifest = json.dumps(_manifest(retrieval, part), indent=2, ensure_ascii=False)
        (part / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
        for file in part.iterdir():
            file.chmod(0o600)
        if folder.exists():
            folder.rename(replaced)
        part.rename(folder)
    except (OSError, pa.ArrowException, OverflowError, UnicodeError) as error:
        if replaced.exists() and not folder.exists():
            replaced.rename(folder)
        raise ConfigError(f"--save-retrieval {folder}: cannot be written: {error}") from error
    finally:
        for leftover in (part, replaced):
            shutil.rmtree(leftover, ignore_errors=True)


def _encoding(schema: pa.Schema) -> dict[str, Any]:
    """Return how columns are written: the bytes of numbers stand by their place in the number, which packs well."""
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    others = [field.name for field in schema if field.name not in (*floats, "vector")]
    return {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": others,
        "column_encoding": dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
        "write_statistics": False,
    }


def _tables(retrieval: SavedRetrieval) -> dict[str, pa.Table]:
    chunks = [retrieval.chunks[code] for code in range(len(retrieval.chunks))]
    rows = [{name: getattr(chunk, name) for name in HINTS} for chunk in chunks]
    return {
        "queries": pa.Table.from_pylist(list(_query_rows(retrieval.variants)), schema=QUERIES),
        "candidates": pa.concat_tables(
            [_candidates(number, variant.table) for number, variant in enumerate(retrieval.variants)],
            promote_options="default",
        ),
        "chunks": pa.Table.from_pylist(rows, schema=CHUNKS),
    }


def _query_rows(variants: Sequence[SavedVariant]) -> Iterator[dict[str, Any]]:
    for number, variant in enumerate(variants):
        table = variant.table
        for case_id, candidates in zip(variant.ids, table, strict=True):
            yield {
                "variant": number,
                "id": case_id,
                "query": candidates.text,
                "candidates": len(candidates),
                "scale": candidates.scale,
                "vector": candidates.vector,
                **asdict(candidates.timings),
                "no_cosine": candidates.no_cosine,
                "distance": candidates.distance,
                "incomplete": candidates.incomplete,
                "cache": json.dumps(dict(candidates.cache)),
                "ann_recall": json.dumps(dict(candidates.ann_recall)),
                "retrieved_at": candidates.retrieved_at,
            }


def _candidates(variant: int, table: CandidateTable) -> pa.Table:
    lengths = table.lengths
    columns = {"score": table.scores, **table.columns}
    return pa.table(
        {
            "variant": np.full(len(table.codes), variant, dtype=np.int32),
            "query": np.repeat(np.arange(len(table), dtype=np.int32), lengths),
            "place": np.concatenate([np.arange(0, dtype=np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)]),
            "chunk": table.codes,
            **{name: pa.array(values, from_pandas=True) for name, values in columns.items()},
        }
    )


def _manifest(retrieval: SavedRetrieval, folder: Path) -> dict[str, Any]:
    info, listing = retrieval.info, retrieval.listing
    variants = [
        {"settings": v.settings, "depth": v.depth, "label": v.label, "embedding": v.embedding, "notes": v.notes}
        for v in retrieval.variants
    ]
    first = retrieval.variants[0]
    queries = list(zip(first.ids, first.table.texts, strict=True))
    return {
        "schema_version": SCHEMA_VERSION,
        "saved_at": retrieval.saved_at,
        "queries": len(queries),
        "queries_fingerprint": hashlib.sha256(json.dumps(queries).encode()).hexdigest(),
        "variants": variants,
        "collection": retrieval.collection,
        "info": None if info is None else {name: getattr(info, name) for name in INFO},
        "listing": asdict(listing) | {"pages": sorted(listing.pages), "ids": sorted(listing.ids)},
        "versions": retrieval.versions,
        "files": {name: digest(folder / f"{name}.parquet") for name in TABLES},
    }
