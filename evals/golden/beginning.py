"""`golden init` and `golden import`: begin golden data from chunks, or make them of tables from elsewhere."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evals.cases.reading import FIELDS, load_golden
from evals.config.experiment import DatasetConfig
from evals.config.files import write
from evals.config.telemetry import silence
from evals.errors import DatasetError
from evals.golden.chunks import (
    SPLITS,
    check_new,
    evidence_of,
    json_lines,
    named_chunks,
    next_check,
    prose,
    say,
    spread,
)
from retrievers.errors import nearest
from retrievers.records import Chunk

# Most words of a quote.
QUOTE_WORDS = 60


def init(namespace: argparse.Namespace) -> int:
    """Run `golden init`.

    Raises:
        DatasetError: The file exists, or no chunk holds text.
    """
    check_new(namespace.out, force=namespace.force)
    chunks = named_chunks(namespace, needed=True)[2] or []
    rows = skeletons(chunks, namespace.count, namespace.out_of_scope, namespace.seed)
    write(namespace.out, json_lines(rows))
    line = (
        f"{namespace.out}: {len(rows)} skeleton cases out of {len(chunks)} chunks; write a query and an answer "
        f"into each, shorten the quote to what answers it, then: {next_check(namespace.out, namespace)}"
    )
    return say(namespace, [line])


def skeletons(chunks: Sequence[Chunk], count: int, out_of_scope: int, seed: int) -> list[dict[str, Any]]:
    """Return cases with evidence but an empty query, spread over as many pages as possible.

    The evidence quotes prose of a chunk. Chunks without prose, such as code and lists of references, are left out,
    unless the collection has no others.

    Args:
        chunks: Chunks of the collection.
        count: Number of in-scope cases. There are fewer if there are fewer chunks.
        out_of_scope: Number of out-of-scope cases, whose query is empty.
        seed: Seed of the choice.
    """
    rows: list[dict[str, Any]] = []
    for number, chunk in enumerate(spread(chunks, seed)[:count], 1):
        words = (prose(chunk.text) or chunk.text).split()
        quote = " ".join(words[:QUOTE_WORDS])
        if len(words) > QUOTE_WORDS and (sentences := re.match(r".*[.!?](?= |$)", quote)):
            quote = sentences[0]
        empty = {"query": "", "reference_answer": None, "query_type": "factual"}
        rows.append({"id": f"case-{number:03}", **empty, "evidence": [{**evidence_of(chunk, quote), "grade": 3}]})
    outside = {"query": "", "in_scope": False, "query_type": "near_domain"}
    rows += [{"id": f"out-{number:03}", **outside} for number in range(1, out_of_scope + 1)]
    return [row | {"split": SPLITS[number % 2]} for number, row in enumerate(rows)]


def import_cases(namespace: argparse.Namespace) -> int:
    """Run `golden import`.

    Raises:
        DatasetError: The source has faults. Each is listed with its place, and nothing is written.
    """
    source = Path(namespace.source)
    hub = None if source.exists() else namespace.source
    if hub and not namespace.revision:
        hint = "of a hub id give --revision, a commit hash, or its data may change"
        raise DatasetError(f"{hub!r}: no such file or folder; {hint}")
    check_new(namespace.out, force=namespace.force)
    silence(hub=bool(hub))
    path = None if hub else source
    config = DatasetConfig(path=path, hub=hub, revision=namespace.revision, split=namespace.split)
    cases = load_golden(config, parse_columns(namespace.column)).cases
    write(namespace.out, json_lines([case.model_dump(exclude_defaults=True) for case in cases]))
    outside = sum(not case.in_scope for case in cases)
    last = f"  next: {next_check(namespace.out, namespace)}, and label what has no evidence"
    return say(namespace, [f"{namespace.out}: {len(cases)} cases of {source}, {outside} of them out of scope", last])


def parse_columns(flags: Sequence[str]) -> dict[str, str] | None:
    """Parse flags such as `query=question` into a mapping of columns to fields; None without flags.

    Raises:
        DatasetError: A flag has another form, or an unknown field.
    """
    columns: dict[str, str] = {}
    for flag in flags:
        field, column = (word.strip() for word in flag.partition("=")[::2])
        if not column or field not in FIELDS:
            fields = f"{nearest(field, FIELDS)}; fields are {', '.join(FIELDS)}"
            raise DatasetError(f"--column: expected FIELD=COLUMN, such as query=question, got {flag!r}{fields}")
        columns[column] = field
    return columns or None
