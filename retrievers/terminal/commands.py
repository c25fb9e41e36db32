"""The commands `search | index | inspect`."""

import argparse
import os
import re
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from retrievers.config import IndexSettings, RetrieverConfig, page_base
from retrievers.config.files import user_path
from retrievers.config.layers import Layer, add_flags, build, environment, environment_layer, file_layer, flag_layer
from retrievers.errors import ConfigError
from retrievers.terminal.command import (
    EXIT_USER_ERROR,
    Parser,
    add_logging_flags,
    argument,
    print_error,
    print_out,
    print_rendered,
    progress_bar,
    run,
    set_up_logging,
)
from retrievers.text.shown import json_text

if TYPE_CHECKING:
    from retrievers.terminal.inspect import Maker

GENERIC_FOLDERS = {"docs", "doc", "content", "pages", "corpus", "data", "train", ""}


def main(arguments: Sequence[str] | None = None, prog: str = "python -m retrievers") -> int:
    """Parse the arguments, run the command, and return its exit code. Messages call the command `prog`."""
    return run(_run, parser(prog).parse_args(arguments))


def default_collection(folder: Path) -> str:
    """Name a collection after its folder or file. If that has a generic name, such as `docs`, its parent counts."""
    folder = folder.resolve()
    name = folder.stem if folder.is_file() else folder.name
    name = folder.parent.name if name.lower() in GENERIC_FOLDERS else name
    return re.sub(r"[^\w-]+", "_", name) or "docs"


def _run(namespace: argparse.Namespace) -> int:
    set_up_logging(verbose=namespace.verbose, quiet=namespace.quiet)
    env = environment(os.environ)
    layers = [environment_layer(env)]
    if namespace.config:
        layers.append(file_layer(namespace.config, RetrieverConfig, served=namespace.command == "search"))
    layers.append(flag_layer(namespace, RetrieverConfig))
    if namespace.command == "index" and not any("collection" in layer.values for layer in layers):
        layers.insert(0, Layer(label="the folder's name", values={"collection": default_collection(namespace.folder)}))
    if namespace.command == "search":
        return _search(namespace, layers, env)
    config = build(RetrieverConfig, layers)
    if config.python is not None:
        raise ConfigError(f"python: {namespace.command} works on a collection, not on {config.python!r}; leave it out")
    if namespace.write and namespace.write.exists():
        raise ConfigError(f"{namespace.write}: exists already; leave --write out, or name another file")
    from retrievers.embedding.models import make_embeddings

    model = cache(lambda: make_embeddings(config.embedding, env))  # a local one takes seconds to load
    if namespace.command == "index":
        _index(namespace, config, env, model)
    if namespace.command == "inspect" or namespace.write:
        _look(namespace, config, env, model)
    return 0


def _search(namespace: argparse.Namespace, layers: Sequence[Layer], env: dict[str, str]) -> int:
    """Search by the settings. What they leave out is as the experiment that made the collection searches it."""
    from retrievers.retriever.opened import open_retriever, recorded_search
    from retrievers.search.query import check_query
    from retrievers.terminal.present import session_json, session_text

    check_query(namespace.query)
    # Other settings may need what the record says.
    place = [{n: layer.values[n] for n in ("python", "store", "collection") if n in layer.values} for layer in layers]
    config = build(
        RetrieverConfig, [Layer(label=layer.label, values=v) for layer, v in zip(layers, place, strict=True)]
    )
    record = Layer(label=f"the record of collection {config.collection!r}", values=recorded_search(config, env))
    config = build(RetrieverConfig, [record, *layers])
    with open_retriever(config, env=env) as retriever:
        session = retriever.search(namespace.query)
    if session.status != "success":
        print_error(f"error: {session.error}")
        return EXIT_USER_ERROR
    if namespace.json:
        print_rendered(json_text(session_json(session), indent=2))
    else:
        print_out(session_text(session, verbose=namespace.verbose))
    return 0


def _index(namespace: argparse.Namespace, config: RetrieverConfig, env: dict[str, str], model: "Maker") -> None:
    from retrievers.indexing.index import index_corpus
    from retrievers.indexing.pages import read_corpus
    from retrievers.indexing.rows import read_rows, table_of
    from retrievers.net import patient
    from retrievers.store.opening import location, open_client

    settings = build(IndexSettings, [flag_layer(namespace, IndexSettings)])
    table = table_of(namespace.folder)
    corpus = read_rows(table) if table else read_corpus(namespace.folder, namespace.base_url)
    corpus = corpus.readable(skip_broken=namespace.skip_broken)
    embeddings = model()
    with (
        closing(open_client(config.store, env, create=True)) as client,
        progress_bar(shown=not namespace.quiet) as progress,
        patient(),
    ):
        report = index_corpus(
            client, config, embeddings, corpus, settings, replace=namespace.replace, progress=progress
        )
    for fault in corpus.faults:
        print_error(f"skipped: {fault}")
    if namespace.quiet:
        return
    if corpus.note:
        print_error(f"note: {corpus.note}")
    where = f"{report.chunks} chunks in collection {config.collection!r} at {location(config.store)}"
    changes = f"{report.changed} new or changed, {report.removed} removed"
    print_out(f"{len(corpus.pages)} {corpus.unit}, {where}: {changes}")


def _look(namespace: argparse.Namespace, config: RetrieverConfig, env: dict[str, str], model: "Maker") -> None:
    """Inspect the collection: print its facts, write the experiment that is asked for, and name the next command."""
    from retrievers.terminal.inspect import inspection_text, look, write_experiment

    seen, file = look(config, env, model), namespace.write
    if namespace.command == "inspect":
        print_out(inspection_text(seen))
    if not file:
        return
    is_beir = namespace.command == "index" and (namespace.folder / "qrels").is_dir()  # it has queries of its own
    golden = f"{file.stem}-golden.jsonl" if is_beir else "golden.jsonl"
    write_experiment(file, seen, env, golden)
    named, out = quote(str(file)), quote(str(file.parent / golden))
    begin = f"init --config {named} --out {out}, then fill in its queries and:"
    if is_beir:
        begin = f"import {quote(str(namespace.folder))} --out {out}, then:"
    if not namespace.quiet:
        print_out(f"Written: {file}. Next: python -m evals.golden {begin} python -m evals.run --config {named}")


# Flags


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the commands. Messages call the command `prog`."""
    arguments = Parser(prog=prog, description="Index pages into Qdrant, search them, look at a collection.")
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    search = commands.add_parser("search", help="search a collection")
    index = commands.add_parser("index", help="index a folder of pages (Markdown, HTML, text, PDF), or a dataset")
    inspect = commands.add_parser("inspect", help="look at a collection, propose a map of its payload, audit it")
    search.add_argument("query", metavar="QUERY", help="what to look for")
    search.add_argument("--json", action="store_true", help="print the whole session as JSON")
    about = "folder of .md, .mdx, .html, .txt and .pdf files; or a dataset: .jsonl, .parquet, a folder of BEIR"
    index.add_argument("folder", type=user_path, metavar="SOURCE", help=about)
    start = "what page addresses begin with (default: /docs)"
    index.add_argument("--base-url", type=argument(page_base), default="/docs", help=start)
    index.add_argument("--skip-broken", action="store_true", help="index the other pages when some are broken")
    index.add_argument("--replace", action="store_true", help="allow more than half of the stored chunks to be removed")
    for command in (index, inspect):
        command.add_argument("--write", type=user_path, metavar="FILE", help="write an experiment for evals.run")
    add_flags(index, IndexSettings)
    for command in (search, index, inspect):
        command.add_argument("--config", type=user_path, metavar="FILE", help="retriever settings as YAML")
        add_logging_flags(command, quiet="print the result and errors alone: no progress, no warnings of the log")
        add_flags(command, RetrieverConfig)
    return arguments
