"""The embedded collection of an experiment, built or updated from its source pages."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evals.config.experiment import ExperimentConfig
from retrievers.config.indexing import recorded_settings
from retrievers.embedding.models import make_embeddings
from retrievers.errors import CollectionDamagedError, CollectionNotFoundError
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.corpus import Corpus, read_corpus
from retrievers.indexing.index import IndexOptions, index_corpus
from retrievers.store import describe, open_client


def index_if_stale(config: ExperimentConfig, env: Mapping[str, str], progress: Callable[[str, int, int], None]) -> bool:
    """Index `sources.dir` if the experiment owns the collection and it is missing, unfinished or of other pages.

    Only an embedded collection named by `index.collection` is ever written to.

    Returns:
        Whether anything had to be indexed.

    Raises:
        RetrievalError: Pages are broken, or the store cannot be opened.
    """
    retriever, corpus = config.retriever, _own_pages(config)
    if corpus is None:
        return False
    client = open_client(retriever.store, env, create=True)
    try:
        try:
            info = describe(client, retriever)
            manifest, lost = info.manifest, info.lost
        except (CollectionNotFoundError, CollectionDamagedError):
            manifest, lost = {}, 0
        if not lost and not _differences(config, corpus, manifest):
            return False
        embeddings = make_embeddings(retriever.embedding, env)
        options = IndexOptions(settings=config.index, replace=True)
        index_corpus(client, retriever, embeddings, corpus, options, progress)
        return True
    finally:
        client.close()


def outdated(config: ExperimentConfig, manifest: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what a collection of the experiment's own records, and should record to be up to date, where they differ.

    Raises:
        RetrievalError: Pages are broken.
    """
    corpus = _own_pages(config)
    return {} if corpus is None else _differences(config, corpus, manifest)


def owns_collection(config: ExperimentConfig) -> bool:
    """Return True if the experiment makes its collection, an embedded one, of its own pages."""
    return _own_pages_folder(config) is not None


def _own_pages(config: ExperimentConfig) -> Corpus | None:
    """Return the pages of the collection that the experiment owns; None where it owns none."""
    folder = _own_pages_folder(config)
    return None if folder is None else read_corpus(folder, config.sources.base_url)


def _own_pages_folder(config: ExperimentConfig) -> Path | None:
    retriever = config.retriever
    if retriever.python is not None and not retriever.names_collection:
        return None
    if retriever.store.url or retriever.collection != config.index.collection:
        return None
    return config.sources.dir


def _differences(config: ExperimentConfig, corpus: Corpus, manifest: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    recorded = recorded_settings(manifest)
    expected = {
        "state": "complete",
        "pages_fingerprint": corpus.fingerprint,
        "chunking": CHUNKING_VERSION,
        "payload": config.retriever.metadata.layout,
        # Settings that the experiment leaves out are as recorded.
        **{f"index.{name}": value for name, value in config.index.named.items()},
    }
    facts = {**manifest, **{f"index.{name}": value for name, value in recorded.items()}}
    return {name: (facts.get(name), value) for name, value in expected.items() if facts.get(name) != value}
