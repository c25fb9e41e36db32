"""Functions that the subcommands share: chunks of a collection or of pages, a fair choice of them, and output."""

import argparse
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from shlex import join
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from evals.config.experiment import ExperimentConfig
from evals.config.files import check_writable, experiment_file, named_folders
from evals.errors import DatasetError
from evals.experiment.bench import index_if_stale
from evals.stats.intervals import Floats
from retrievers.config import MAX_QUERY_CHARACTERS, IndexSettings, RetrieverConfig
from retrievers.config.layers import build, environment, environment_layer, file_layer, flag_layer, leaves
from retrievers.embedding.models import make_embeddings
from retrievers.indexing.pages import read_corpus
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever
from retrievers.store.chunks import scroll, unit
from retrievers.store.collection import describe
from retrievers.store.opening import open_client
from retrievers.terminal.command import print_error, print_out
from retrievers.text.shown import json_text

Embed = Callable[[Sequence[str]], Floats]
"""Takes texts, and returns their vectors of length 1, shape (texts, dimension)."""
# Blank lines, headings, and the first and last lines of code blocks.
BETWEEN_PARAGRAPHS = re.compile(r"\n\s*\n|^\s*(?:#|```|~~~|---).*$", re.MULTILINE)
# A paragraph of fewer words is taken only if there is no longer one.
ENOUGH_WORDS = 8
# Lowest share of letters, digits and blanks in prose. Tables and most code have less.
LETTERS = 0.8
# The split on which settings are chosen, and that on which the choice is measured.
SPLITS = ("dev", "test")
# Number of words by which passages like a given one are searched.
QUERY_WORDS = 60


@dataclass(frozen=True, kw_only=True)
class Passages:
    """Chunks to write queries to.

    Attributes:
        chunks: All chunks.
        nearest: Takes a text and a number, and returns so many chunks nearest to the text, the nearest first.
        embed: Takes queries, and returns their vectors.
        origin: Name of the chunks in messages.
    """

    chunks: Sequence[Chunk]
    nearest: Callable[[str, int], Sequence[Chunk]]
    embed: Embed
    origin: str

    def alike(self, chunk: Chunk, count: int) -> list[Chunk]:
        """Return the other chunks nearest to a chunk, the nearest first."""
        text = " ".join(chunk.text.split()[:QUERY_WORDS])[:MAX_QUERY_CHARACTERS]
        return [other for other in self.nearest(text, count + 1) if other.chunk_id != chunk.chunk_id]


def retriever_settings(namespace: argparse.Namespace) -> tuple[RetrieverConfig, Mapping[str, str], bool]:
    """Return the retriever's settings, the environment, and True if the flags name pages or a collection.

    If the experiment of `--config` owns its collection, this is brought up to date, as by a run.

    Raises:
        RetrievalError: A setting has a fault, or the collection cannot be made.
    """
    env = environment(os.environ)
    flags = flag_layer(namespace, RetrieverConfig)
    file = experiment_file(namespace.config) if namespace.config else None
    of_file = [file_layer(file, RetrieverConfig, named_folders(env))] if file else []
    settings = build(RetrieverConfig, [environment_layer(env), *of_file, flags])
    if file and not namespace.docs:
        experiment = file_layer(file, ExperimentConfig, named_folders(env))
        if {"retriever", "sources"} <= experiment.values.keys():
            whole = build(ExperimentConfig, [experiment]).model_copy(update={"retriever": settings})
            index_if_stale(whole, env, lambda stage, done, total: None)
    is_named = bool(namespace.docs or file or {"store", "collection", "python"} & flags.values.keys())
    return settings, env, is_named


def named_chunks(
    namespace: argparse.Namespace, *, needed: bool = False
) -> tuple[RetrieverConfig, Mapping[str, str], list[Chunk] | None]:
    """Return settings, environment, and the chunks of the pages or of the collection that the flags name, or None.

    Pages are cut as indexing cuts them by default. Those that cannot be read are told, and left out.

    Args:
        namespace: The arguments of the command.
        needed: True to read the collection of the settings if no flag names one, and to refuse chunks without text.

    Raises:
        RetrievalError: The pages or the collection cannot be read.
    """
    config, env, is_named = retriever_settings(namespace)
    if not (is_named or needed):
        return config, env, None
    if namespace.docs:
        corpus = read_corpus(namespace.docs, namespace.base_url)
        for fault in corpus.faults:
            print_error(f"skipped: {fault}")
        chunks = [*corpus.cut(IndexSettings().over({}))]
    else:
        chunks = _list_chunks(config, env)
    if needed and not any(chunk.text.strip() for chunk in chunks):
        fault = f"{origin(namespace, config)}: none of its {len(chunks)} chunks holds text"
        hint = f"; text is expected under payload key {config.metadata.text_key!r} (retriever.metadata.text_key)"
        raise DatasetError(fault if namespace.docs else fault + hint)
    return config, env, chunks


def origin(namespace: argparse.Namespace, config: RetrieverConfig) -> str:
    """Return the name of the chunks in messages."""
    return str(namespace.docs or config.python or f"collection {config.collection!r}")


def _list_chunks(config: RetrieverConfig, env: Mapping[str, str]) -> list[Chunk]:
    """Return all chunks of a collection, or of the retriever that the user's factory makes."""
    if config.python is None:
        with closing(open_client(config.store, env, config.collection)) as client:
            return scroll(client, config, info=describe(client, config))
    with open_retriever(config, env=env) as retriever:
        return retriever.chunks()


@contextmanager
def open_passages(namespace: argparse.Namespace) -> Iterator[Passages]:
    """Yield the passages of a folder of pages, or of the collection if no folder is given.

    Raises:
        DatasetError: No passage holds text.
        RetrievalError: The pages or the collection cannot be read.
    """
    settings, env, listed = named_chunks(namespace, needed=True)
    chunks = [chunk for chunk in listed or () if chunk.text.strip()]
    embeddings = make_embeddings(settings.embedding, env)
    embed = embedder(embeddings)
    # Reranking is left out, since each search may cost a call.
    unranked = settings if settings.python is not None else settings.model_copy(update={"rerank": "none"})
    with nullcontext() if namespace.docs else open_retriever(unranked, env=env) as retriever:
        vectors = None if retriever else unit(embeddings.embed_documents([chunk.text for chunk in chunks]))

        def nearest(text: str, count: int) -> list[Chunk]:
            if retriever:
                [candidates] = retriever.candidates([text], depth=count)
                return [candidate.chunk for candidate in candidates[:count]]
            order = np.argsort(-(vectors @ embed([text])[0]), kind="stable")
            return [chunks[index] for index in order[:count]]

        yield Passages(chunks=chunks, nearest=nearest, embed=embed, origin=origin(namespace, settings))


def embedder(embeddings: Embeddings) -> Embed:
    """Return a function from queries to their vectors of length 1, shape (queries, dimension)."""
    return lambda texts: unit([embeddings.embed_query(text) for text in texts])


def section_of(chunk: Chunk) -> tuple[str, str]:
    """Return page and headings of a chunk."""
    return chunk.page, chunk.section_path or chunk.heading or ""


def evidence_of(chunk: Chunk, quote: str) -> dict[str, Any]:
    """Return a quote from a chunk as the fields of a case's evidence."""
    evidence = {"source_url": chunk.source_url, "heading": chunk.heading, "quote": quote}
    return {name: value for name, value in evidence.items() if value}


def spread(chunks: Sequence[Chunk], seed: int) -> list[Chunk]:
    """Return the chunks that hold prose, in random order. Each page has its turn before any page has its second.

    In a collection without prose, all chunks with text are taken. Chunks whose text others repeat come last, since a
    search may return any of them.
    """
    readable = [chunk for chunk in chunks if prose(chunk.text)] or [chunk for chunk in chunks if chunk.text.strip()]
    times = Counter(chunk.text for chunk in readable)
    pages: dict[str, list[Chunk]] = {}
    for chunk in random.Random(seed).sample(sorted(readable, key=lambda chunk: chunk.chunk_id), len(readable)):
        pages.setdefault(chunk.page, []).append(chunk)
    turns = (chunk for turn in zip_longest(*pages.values()) for chunk in turn if chunk)
    return sorted(turns, key=lambda chunk: times[chunk.text] > 1)


def prose(text: str) -> str:
    """Return the first paragraph of prose in a text, or the longest one if all are short; empty without prose.

    A person can write a question to prose. Tables, most code, and lists of links are no prose.
    """
    paragraphs = [block.strip("\n") for block in BETWEEN_PARAGRAPHS.split(text) if _is_prose(block)]
    long = (paragraph for paragraph in paragraphs if len(paragraph.split()) >= ENOUGH_WORDS)
    return next(long, max(paragraphs, key=len, default=""))


def _is_prose(paragraph: str) -> bool:
    letters = sum(character.isalnum() or character.isspace() for character in paragraph)
    return bool(paragraph.strip()) and letters >= LETTERS * len(paragraph)


def say(namespace: argparse.Namespace, lines: Sequence[str]) -> int:
    """Print lines, unless `--quiet` is given; return the exit code of success."""
    if not namespace.quiet:
        print_out("\n".join(lines))
    return 0


def json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON Lines, with one object on each line."""
    return "".join(json_text(row) + "\n" for row in rows)


def check_new(file: Path, *, force: bool) -> None:
    """Make sure that a file can be written, and that no existing file is overwritten.

    Raises:
        ConfigError: The file cannot be written.
        DatasetError: The file exists, and `force` is not set.
    """
    check_writable(file)
    if file.exists() and not force:
        raise DatasetError(f"{file}: exists already; name another file with --out, or replace it with --force")


def next_check(file: Path, namespace: argparse.Namespace) -> str:
    """Return the command that checks a golden file against the pages or the collection of this command."""
    given = vars(namespace)
    names = ("docs", *(["base_url"] if given["docs"] else []), "config", *leaves(RetrieverConfig))
    flags = [(f"--{name.replace('_', '-')}", str(given[name])) for name in names if given.get(name) is not None]
    return join(["python", "-m", "evals.golden", "check", str(file), *chain(*flags)])
