"""Checks of chunks: texts that are empty, tiny, cut or stored twice; fields missing or of the wrong type."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from retrievers.config.filters import comparisons, parse
from retrievers.doctor.examine import Examination, Finding
from retrievers.store.payload import payload_keys, usual_fields

# A field with this few values, each on several chunks, is one that people filter by.
FEW_VALUES, LEAST_CHUNKS = 30, 5
# Points from which a filter without an index is slow.
SLOW_FROM = 10_000
FILTERED_BY = ("module", "chapter", "tags", "source_document_id")
TINY_WORDS = 5
# Shares of the sample from which a finding is worth a line.
MANY_TINY, MANY_CUT, MANY_TWICE = 0.05, 0.3, 0.02
NEAR_COSINE, NEAR_OVERLAP = 0.95, 0.8
# A last line of six words or more that ends in a word or a comma, and is no heading, list item, table row or quote.
UNENDED = re.compile(r"(?![#|>*+-]|\d+[.)])(?:\S+\s+){5,}\S*[\w,]")


def readable(read: Examination) -> Iterator[Finding]:
    """Find chunks without a text, and tiny ones."""
    empty = [point for point in read.points if not point.chunk.text.strip()]
    tiny = [point for point in read.points if 0 < len(point.chunk.text.split()) < TINY_WORDS]
    if empty:
        key = read.config.metadata.text_key
        yield Finding(
            check="texts/empty",
            severity="error",
            seen=f"{_of(empty, read)} have no text under payload key {key!r} (the first: point "
            f"{empty[0].chunk.point_id}, with the keys {', '.join(sorted(empty[0].payload)[:6]) or 'none'})",
            why="they are returned and say nothing; a reranker or an answer made from them has nothing to read",
            fix="set metadata.text_key (python -m retrievers inspect proposes it), or delete those points",
        )
    if len(tiny) > MANY_TINY * len(read.points):
        yield Finding(
            check="texts/tiny",
            severity="warning",
            seen=f"{_of(tiny, read)} have fewer than {TINY_WORDS} words, such as {tiny[0].chunk.text.strip()[:40]!r}",
            why="a short text is near to many queries and answers none: it takes a place in the first results",
            fix="join them to their neighbours before they are embedded (index.merge_small)",
        )


def cut(read: Examination) -> Iterator[Finding]:
    """Find chunks that end within a sentence."""
    texts = [point.chunk.text.strip() for point in read.points if point.chunk.text.strip()]
    # An open fence is code, which has no sentences.
    prose = [text for text in texts if text.count("```") % 2 == 0]
    ends = [text for text in prose if UNENDED.fullmatch(text.rsplit("\n", 1)[-1].strip())]
    if len(ends) > MANY_CUT * len(texts):
        yield Finding(
            check="texts/cut",
            severity="warning",
            seen=f"{_of(ends, read)} end within a sentence, such as '… {' '.join(ends[0].split())[-50:]}'",
            why="a statement that is cut in two is found by neither half, and cannot be quoted",
            fix="split at sentences and paragraphs, or let chunks overlap",
        )


def duplicates(read: Examination) -> Iterator[Finding]:
    """Find texts that are stored more than once, word for word or nearly."""
    texts = [" ".join(point.chunk.text.split()) for point in read.points]
    counts = Counter(text for text in texts if text)
    again = sum(count - 1 for count in counts.values())
    if again:
        text, count = counts.most_common(1)[0]
        yield Finding(
            check="texts/duplicates",
            severity="warning" if again > MANY_TWICE * len(texts) else "note",
            seen=f"{again} of {len(texts)} texts {'repeat' if again > 1 else 'repeats'} another, such as "
            f"{text[:50]!r} ({count} times)",
            why="copies take places in the first results, and golden data that names one counts the other as wrong",
            fix="keep one of each: delete the others by client.delete(...), or leave them out when indexing",
        )
    near = _near_pairs(read, texts)
    if len(near) > MANY_TWICE * len(texts):
        first, second = near[0]
        yield Finding(
            check="texts/near_duplicates",
            severity="warning",
            seen=f"{len(near)} pairs among {len(texts)} texts are nearly the same, such as points "
            f"{read.points[first].chunk.point_id} and {read.points[second].chunk.point_id}",
            why="versions of one page fill the first results with one statement",
            fix="index one version, filter by it, or let MMR (rerank: mmr) choose among them",
        )


def _near_pairs(read: Examination, texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of places whose vectors are near and whose texts share most of their word pairs."""
    places = [index for index, point in enumerate(read.points) if point.dense and any(point.dense) and texts[index]]
    if not places:
        return []
    vectors = np.asarray([read.points[index].dense for index in places], dtype=float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, columns = np.nonzero(np.triu(vectors @ vectors.T >= NEAR_COSINE, k=1))
    pairs = [(places[row], places[column]) for row, column in zip(rows, columns, strict=True)]
    return [(a, b) for a, b in pairs if texts[a] != texts[b] and _overlap(texts[a], texts[b]) >= NEAR_OVERLAP]


def _overlap(text: str, other: str) -> float:
    """Return the share of word pairs that two texts have in common (Jaccard), 0 to 1."""
    pairs, others = set(pairwise(text.split())), set(pairwise(other.split()))
    return len(pairs & others) / max(1, len(pairs | others))


def _of(chosen: Sequence[object], read: Examination) -> str:
    return f"{len(chosen)} of {len(read.points)} chunks"


def keys(read: Examination) -> Iterator[Finding]:
    """Find required fields that chunks lack, and values of the wrong type."""
    named, chunks = read.config.metadata.required, [point.chunk for point in read.points]
    required = usual_fields(chunks) if named is None else named
    missing = Counter(name for chunk in chunks for name in required if getattr(chunk, name, None) is None)
    if missing:
        counts = ", ".join(f"{name} ({count} of {len(chunks)})" for name, count in missing.most_common())
        yield Finding(
            check="payload/keys",
            severity="warning",
            seen=f"chunks lack {'usual fields' if named is None else 'fields that metadata.required names'}: {counts}",
            why="every query that returns one of them passes in part only",
            fix="map the payload's own keys (python -m retrievers inspect), or require only what there is",
        )
    if named is None and chunks and not any(chunk.source_url for chunk in chunks):
        yield Finding(
            check="payload/address",
            severity="note",
            seen="no chunk says which page it is from (source_url)",
            why="an application cannot cite it, and golden data has to name chunks by their ids or documents",
            fix="if a payload key holds the address: metadata.map {source_url: KEY} (python -m retrievers inspect)",
        )
    wrong = Counter(problem.split(":")[0] for point in read.points for problem in point.chunk.problems)
    wrong.pop("text", None)
    if wrong:
        example = next(p for point in read.points for p in point.chunk.problems if not p.startswith("text:"))
        yield Finding(
            check="payload/types",
            severity="warning",
            seen=f"values of the wrong type: {', '.join(f'{name} × {count}' for name, count in wrong.items())}; "
            f"such as {example}",
            why="they are left out of results, as if the key were missing",
            fix="write them in the expected type: client.set_payload(...)",
        )


def filters(read: Examination) -> Iterator[Finding]:
    """Find fields that are filtered by, or look like it, and have no index."""
    config = read.config
    used = {condition.field for condition in comparisons(parse(config.filters))} if config.filters else set[str]()
    used |= {config.group_by} if config.group_by else set()
    likely = {name for name in FILTERED_BY if _looks_filtered(read, name)} if read.info.points >= SLOW_FROM else set()
    for names, severity in ((used, "warning"), (likely - used, "note")):
        bare = sorted(key for name in names if (key := _bare_key(read, name)))
        if not bare:
            continue
        refused = severity == "warning" and not read.info.limits.unindexed
        yield Finding(
            check="payload/index",
            severity="error" if refused else "warning" if severity == "warning" else "note",
            seen=f"no payload index on {', '.join(bare)}"
            + (", which a filter or group_by uses" if severity == "warning" else ", a field to filter by"),
            why="strict mode refuses such a filter"
            if refused
            else "the server reads every payload to filter by it, and the vector index cannot take the filter along",
            fix="; ".join(
                f"client.create_payload_index({read.call}, {key!r}, models.PayloadSchemaType.KEYWORD)" for key in bare
            ),
        )


def _bare_key(read: Examination, name: str) -> str | None:
    """Return the payload key of a field that has no index; None where it has one."""
    candidates = payload_keys(name, read.config.metadata) if name in FILTERED_BY or "." not in name else (name,)
    return None if any(key in read.info.indexed for key in candidates) else candidates[0]


def _looks_filtered(read: Examination, name: str) -> bool:
    values = Counter(str(value) for point in read.points if (value := getattr(point.chunk, name, None)))
    return 1 < len(values) <= FEW_VALUES and sum(values.values()) >= LEAST_CHUNKS * len(values)
