"""What the subcommands share: the chunks of a collection or of a folder of pages, and those nearest to a text."""

import argparse
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from evals.config.experiment import ExperimentConfig
from evals.config.files import experiment_file, named_folders
from evals.errors import DatasetError
from evals.experiment.bench import index_if_stale
from retrievers.config import MAX_QUERY_CHARACTERS, RetrieverConfig
from retrievers.config.layers import build, environment, environment_layer, file_layer, flag_layer
from retrievers.embedding.models import make_embeddings
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import IndexingError
from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
from retrievers.indexing.markdown import Page
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever
from retrievers.store import describe, open_client
from retrievers.store.chunks import scroll
from retrievers.terminal.command import print_out
from retrievers.text.printable import json_text

Floats = NDArray[np.float64]
Embed = Callable[[Sequence[str]], Floats]
"""From texts to their vectors of length 1, shape (texts, dimension)."""
FENCE = re.compile(r"\s*(```|~~~)\s*(\S*)")
LINK = re.compile(r"https?://|\bdoi\b|arxiv|^\s*(?:[-*+]|\d+\.)\s*\[[^\]]*\]\([^)]*\)|^\s*\[\d+\]", re.IGNORECASE)
CODE = re.compile(r"\s*(?:def |class \w+[(:]|import \w+|from \S+ import |return |\$ |[\w.\[\]]+ = )|.*[;{}]\s*$")
REFERENCES = re.compile(r"#*\s*(references|bibliography|further reading|see also|links|sources)\s*:?\s*", re.IGNORECASE)
# A paragraph of fewer words is taken where there is no longer one.
ENOUGH_WORDS = 8
# Share of letters, digits and blanks that prose has at least; tables and most code have less.
LETTERS = 0.8
# Words of a passage that it is looked up by.
QUERY_WORDS = 60


@dataclass(frozen=True, kw_only=True)
class Passages:
    """Chunks to write queries to.

    Attributes:
        chunks: All of them.
        nearest: Text and number to the chunks nearest to it, the nearest first.
        embed: Queries to their vectors.
        origin: What messages call them.
    """

    chunks: Sequence[Chunk]
    nearest: Callable[[str, int], Sequence[Chunk]]
    embed: Embed
    origin: str

    def alike(self, chunk: Chunk, count: int) -> list[Chunk]:
        """Return the other chunks nearest to a chunk, the nearest first."""
        text = " ".join(chunk.text.split()[:QUERY_WORDS])[:MAX_QUERY_CHARACTERS]
        return [other for other in self.nearest(text, count + 1) if other.chunk_id != chunk.chunk_id]


def say(namespace: argparse.Namespace, lines: Sequence[str]) -> int:
    """Print lines, unless nothing but errors is wanted; return the exit code of success."""
    if not namespace.quiet:
        print_out("\n".join(lines))
    return 0


def json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON Lines, one object a line."""
    return "".join(json_text(row) + "\n" for row in rows)


def next_check(file: Path, namespace: argparse.Namespace) -> str:
    """Return the command that checks a golden file, in the pages or the collection that this command was given."""
    named = [f" --{name} {quote(str(path))}" for name in ("docs", "config") if (path := vars(namespace).get(name))]
    return f"python -m evals.golden check {quote(str(file))}{''.join(named[:1])}"


def next_of_unlabelled(count: int, file: Path) -> str:
    """Return what to do with cases that lack their evidence."""
    return (
        f"  {count} of them are without evidence, so that only a judge can score their results (python -m evals.run "
        f"--dataset.path {file} --judge.model PROVIDER:MODEL); or let people judge what a retriever finds (python -m "
        f"evals.golden label {file} --config EXPERIMENT), or add the passages that answer each (evidence or "
        f"relevant_ids), or in_scope: false; then: python -m evals.golden check {file}"
    )


def retriever_settings(namespace: argparse.Namespace) -> tuple[RetrieverConfig, Mapping[str, str], bool]:
    """Return the retriever's settings, the environment, and True if pages or a collection are named.

    A collection that the experiment of `--config` makes of its own pages is made, as a run would do it.

    Raises:
        RetrievalError: A setting has a fault, or the collection cannot be made.
    """
    env = environment(os.environ)
    flags = flag_layer(namespace, RetrieverConfig)
    layers = [environment_layer(env)]
    file = experiment_file(namespace.config) if namespace.config else None
    if file:
        layers.append(file_layer(file, RetrieverConfig, named_folders(env)))
    settings = build(RetrieverConfig, [*layers, flags])
    if file and not namespace.docs:
        whole = file_layer(file, ExperimentConfig, named_folders(env))
        if {"retriever", "sources"} <= whole.values.keys():
            own = build(ExperimentConfig, [whole]).model_copy(update={"retriever": settings})
            index_if_stale(own, env, lambda stage, done, total: None)
    named = namespace.docs or namespace.config or {"store", "collection", "python"} & flags.values.keys()
    return settings, env, bool(named)


def named_chunks(namespace: argparse.Namespace) -> list[Chunk] | None:
    """Return the chunks of the pages or of the collection that the flags name; None where they name neither.

    Raises:
        RetrievalError: They cannot be read.
    """
    config, env, is_named = retriever_settings(namespace)
    if namespace.docs:
        return chunked_pages(namespace.docs, namespace.base_url)[1]
    return listed_chunks(config, env) if is_named else None


def listed_chunks(config: RetrieverConfig, env: Mapping[str, str]) -> list[Chunk]:
    """Return all chunks of a collection, or of the one behind the user's own retriever.

    Raises:
        DatasetError: The user's own retriever does not let them be listed.
        RetrievalError: The store cannot be read.
    """
    if config.python is None:
        client = open_client(config.store, env)
        try:
            return scroll(client, config, info=describe(client, config))
        finally:
            client.close()
    with open_retriever(config, env=env) as retriever:
        if retriever.info is None:
            raise DatasetError(
                f"python: the chunks of {config.python!r} ({retriever.label}) cannot be listed; name the store and "
                "collection that it reads from (--store.path or --store.url, --collection), or let the factory return "
                "its QdrantVectorStore"
            )
        return retriever.chunks()


def collection_name(config: RetrieverConfig) -> str:
    """Return what a message calls the collection."""
    return f"collection {config.collection!r}" if config.python is None else f"python {config.python!r}"


def chunked_pages(docs: Path, base_url: str) -> tuple[Sequence[Page], list[Chunk]]:
    """Return the pages of a folder, and their chunks as indexing cuts them by default.

    Raises:
        IndexingError: The folder has no page, or a page cannot be read.
    """
    corpus = read_corpus(docs, base_url)
    if corpus.faults:
        raise IndexingError("pages cannot be read:", corpus.faults)
    chunks = [chunk for page in corpus.pages for chunk in chunk_page(page, DEFAULT_MAX_TOKENS, count_tokens)]
    return corpus.pages, chunks


@contextmanager
def open_passages(namespace: argparse.Namespace) -> Iterator[Passages]:
    """Yield the passages of a folder of pages, or where none is given of the collection.

    Raises:
        DatasetError: None of them holds text.
        RetrievalError: Pages or collection cannot be read.
    """
    settings, env, _ = retriever_settings(namespace)
    embeddings = make_embeddings(settings.embedding, env)
    if namespace.docs:
        pages = chunked_pages(namespace.docs, namespace.base_url)[1]
        chunks = _with_text(pages, str(namespace.docs), "expected pages with paragraphs")
        vectors = unit(embeddings.embed_documents([chunk.text for chunk in chunks]))

        def among_pages(text: str, count: int) -> list[Chunk]:
            order = np.argsort(-(vectors @ unit([embeddings.embed_query(text)])[0]), kind="stable")
            return [chunks[index] for index in order[:count]]

        yield Passages(chunks=chunks, nearest=among_pages, embed=embedder(embeddings), origin=str(namespace.docs))
        return
    origin = collection_name(settings)
    hint = (
        f"expected it under payload key {settings.metadata.text_key!r} (retriever.metadata.text_key; python -m "
        "retrievers inspect shows the keys)"
    )
    chunks = _with_text(listed_chunks(settings, env), origin, hint)
    # Reranking may cost a call a search.
    plain = settings if settings.python is not None else settings.model_copy(update={"rerank": "none"})
    with open_retriever(plain, env=env) as retriever:

        def in_collection(text: str, count: int) -> list[Chunk]:
            [candidates] = retriever.candidates([text], depth=count)
            return [candidate.chunk for candidate in candidates[:count]]

        yield Passages(chunks=chunks, nearest=in_collection, embed=embedder(embeddings), origin=origin)


def embedder(embeddings: Embeddings) -> Embed:
    """Return a function from queries to their vectors of length 1, shape (queries, dimension)."""
    return lambda texts: unit([embeddings.embed_query(text) for text in texts])


def unit(vectors: Sequence[Sequence[float]]) -> Floats:
    """Return vectors at length 1; one of length 0 stays."""
    array = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(lengths == 0, 1.0, lengths)


def page_of(chunk: Chunk) -> str:
    """Return the page of a chunk; the chunk itself where its page is not known."""
    return chunk.source_url or chunk.file_path or chunk.source_document_id or chunk.chunk_id


def section_of(chunk: Chunk) -> tuple[str, str]:
    """Return page and headings of a chunk."""
    return page_of(chunk), chunk.section_path or chunk.heading or ""


def readable(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks that hold prose; in a collection without any, those with text."""
    return [chunk for chunk in chunks if prose(chunk.text)] or [chunk for chunk in chunks if chunk.text.strip()]


def spread(chunks: Sequence[Chunk], seed: int) -> list[Chunk]:
    """Order chunks so that of any number of first ones each page has its share, and so has each section of a page.

    The j-th of m chunks of a page is put at (j + u) / m, with u drawn from 0 to 1 for each page: systematic sampling.
    """
    rng = random.Random(seed)
    pages: dict[str, dict[str, list[Chunk]]] = {}
    for chunk in sorted(chunks, key=lambda chunk: chunk.chunk_id):
        pages.setdefault(page_of(chunk), {}).setdefault(section_of(chunk)[1], []).append(chunk)
    ordered = [
        _systematic([rng.sample(section, len(section)) for _, section in sorted(pages[page].items())], rng)
        for page in sorted(pages)
    ]
    return _systematic(ordered, rng)


def _systematic(groups: Sequence[Sequence[Chunk]], rng: random.Random) -> list[Chunk]:
    placed = []
    for number, group in enumerate(groups):
        start = rng.random()
        placed += [((turn + start) / len(group), number, chunk) for turn, chunk in enumerate(group)]
    return [chunk for _, _, chunk in sorted(placed, key=lambda entry: entry[:2])]


def prose(text: str) -> str:
    """Return the first paragraph of prose in a text, or the longest where all are short; empty without any.

    Prose is what a person can write a question to: not code, tables or lists of references.
    """
    paragraphs = [paragraph for paragraph in _paragraphs(text) if _is_prose(paragraph)]
    long = (paragraph for paragraph in paragraphs if len(paragraph.split()) >= ENOUGH_WORDS)
    return next(long, max(paragraphs, key=len, default=""))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs outside code fences, front matter and sections of references, without headings."""
    lines = text.strip().splitlines()
    fences = [match for line in lines if (match := FENCE.match(line))]
    # A chunk may begin inside a block of code, whose closing fence is then the first one.
    in_code = len(fences) % 2 == 1 and not fences[0][2]
    in_front = bool(lines) and lines[0].strip() == "---" and "---" in (line.strip() for line in lines[1:])
    paragraph: list[str] = []
    for number, line in enumerate([*lines, ""]):
        if in_front or FENCE.match(line):
            in_front = in_front and (number == 0 or line.strip() != "---")
            in_code ^= bool(FENCE.match(line))
        elif REFERENCES.fullmatch(line.strip()):
            break
        elif line.strip() and not in_code and not line.lstrip().startswith("#"):
            paragraph.append(line)
            continue
        if paragraph:
            yield "\n".join(paragraph)
        paragraph = []
    if paragraph:
        yield "\n".join(paragraph)


def _is_prose(paragraph: str) -> bool:
    lines = paragraph.splitlines()
    other = sum(bool(LINK.search(line) or CODE.match(line)) for line in lines)
    letters = sum(character.isalnum() or character.isspace() for character in paragraph)
    return letters >= LETTERS * len(paragraph) and 2 * other < max(2, len(lines))


def _with_text(chunks: Sequence[Chunk], origin: str, hint: str) -> list[Chunk]:
    with_text = [chunk for chunk in chunks if chunk.text.strip()]
    if not with_text:
        raise DatasetError(f"{origin}: none of its {len(chunks)} chunks holds text to write queries to; {hint}")
    return with_text
