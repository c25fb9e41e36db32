"""The embedded collection of an experiment, built or updated from its source pages."""

from collections.abc import Callable, Mapping
from typing import Any

from evals.config.experiment import ExperimentConfig
from retrievers.embedding.models import make_embeddings
from retrievers.errors import CollectionNotFoundError
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
        except CollectionNotFoundError:
            manifest, lost = {}, 0
        expected = _manifest(config, corpus)
        if not lost and all(manifest.get(key) == value for key, value in expected.items()):
            return False
        embeddings = make_embeddings(retriever.embedding, env)
        options = IndexOptions(max_tokens=config.index.max_tokens, replace=True)
        index_corpus(client, retriever, embeddings, corpus, options, progress)
        return True
    finally:
        client.close()


def expected_manifest(config: ExperimentConfig) -> dict[str, Any] | None:
    """Return what an up-to-date collection of the experiment's own records; None where it has no such collection.

    Raises:
        RetrievalError: Pages are broken.
    """
    corpus = _own_pages(config)
    return None if corpus is None else _manifest(config, corpus)


def _own_pages(config: ExperimentConfig) -> Corpus | None:
    """Return the pages of the collection that the experiment owns; None where it owns none."""
    retriever, folder = config.retriever, config.sources.dir
    if retriever.python is not None and not retriever.names_collection:
        return None
    if retriever.store.url or retriever.collection != config.index.collection or folder is None:
        return None
    return read_corpus(folder, config.sources.base_url)


def _manifest(config: ExperimentConfig, corpus: Corpus) -> dict[str, Any]:
    return {
        "state": "complete",
        "pages_fingerprint": corpus.fingerprint,
        "max_tokens": config.index.max_tokens,
        "chunking": CHUNKING_VERSION,
        "payload": config.retriever.metadata.layout,
    }
