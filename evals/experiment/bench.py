"""The bench of an experiment: open retrievers, judge and source pages. Its own collection is brought up to date."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from evals.cases.pages import open_sources
from evals.config.experiment import ExperimentConfig
from evals.experiment.inputs import Inputs
from evals.judge.judge import Judge
from evals.metrics.declaration import Collaborators
from evals.report.sections import spent
from retrievers.config import RetrieverConfig
from retrievers.config.indexing import recorded_settings
from retrievers.config.settings import load_factory
from retrievers.embedding.models import make_embeddings
from retrievers.errors import CollectionNotFoundError
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.index import index_corpus
from retrievers.indexing.pages import Corpus, read_corpus
from retrievers.net import patient
from retrievers.retriever.opened import completed, open_retriever, search_settings
from retrievers.retriever.protocol import Retriever
from retrievers.store.collection import describe
from retrievers.store.embedded import is_embedded
from retrievers.store.opening import open_client
from retrievers.terminal.command import Progress


@contextmanager
def open_bench(
    inputs: Inputs, env: Mapping[str, str], progress: Progress, given: Retriever | None = None
) -> Iterator[tuple[Inputs, Collaborators]]:
    """Open the judge, the retriever (for a sweep one for each variant) and the source pages of an experiment.

    Args:
        inputs: The experiment. If it starts from a saved retrieval, no retriever is opened.
        env: The environment, which holds API keys.
        progress: Called as pages are indexed and queries are retrieved, timed and judged.
        given: An open retriever in place of the one that the experiment names. It is left open.

    Yields:
        The experiment, its settings completed by those that the open retriever knows; and the open bench.

    Raises:
        RetrievalError: Something cannot be opened, the collection cannot be brought up to date, or a setting does not
            fit the distance of the collection.
    """
    config = inputs.config
    retrievers: list[Retriever] = []
    judge = None
    with patient(), ExitStack() as stack:
        if config.judge.model:
            judge = Judge.open(
                config.judge, env, lambda done, total, usage: progress("judging", done, total, spent(usage))
            )
            stack.callback(judge.close)
        if inputs.saved is None:
            retriever = given or stack.enter_context(_open(config, inputs.settings[0], env, progress))
            inputs = inputs.searched_by(completed(config.retriever, retriever))
            retrievers = [retriever.with_settings(s) for s in inputs.settings] if inputs.sweep else [retriever]
        sources = open_sources(config.sources)
        yield inputs, Collaborators(retrievers=retrievers, progress=progress, sources=sources, judge=judge)


def _open(config: ExperimentConfig, settings: RetrieverConfig, env: Mapping[str, str], progress: Progress) -> Retriever:
    """Bring the collection up to date, and open the retriever with the settings."""
    # The model or the factory is loaded before pages are indexed: if it is missing, nothing is left behind.
    if settings.python is not None:
        load_factory(settings.python, "python")
    embeddings = make_embeddings(settings.embedding, env) if settings.python is None else None
    index_if_stale(config, env, progress)
    return open_retriever(settings, env=env, embeddings=embeddings, index=config.index)


def index_if_stale(config: ExperimentConfig, env: Mapping[str, str], progress: Callable[[str, int, int], None]) -> bool:
    """Index `sources.dir` if the experiment owns the collection, and this is missing, damaged, or made of other pages.

    An experiment owns an embedded collection that `index.collection` names. It writes to no other.

    Returns:
        True if pages were indexed.

    Raises:
        RetrievalError: Pages are broken, or the store cannot be opened.
    """
    retriever, folder = config.retriever, config.sources.dir
    is_named = retriever.python is None or retriever.names_collection
    is_own = is_named and not retriever.store.url and retriever.collection == config.index.collection
    if folder is None or not is_own:
        return False
    corpus = read_corpus(folder, config.sources.base_url)
    with closing(open_client(retriever.store, env, create=True)) as client:
        if _is_current(client, corpus, config):
            return False
        if is_embedded(client):
            client.build_alone()
            if _is_current(client, corpus, config):  # another run has indexed the pages meanwhile
                return False
        embeddings, search = make_embeddings(retriever.embedding, env), search_settings(retriever)
        pages = corpus.readable()
        index_corpus(client, retriever, embeddings, pages, config.index, replace=True, search=search, progress=progress)
        return True


def _is_current(client: Any, corpus: Corpus, config: ExperimentConfig) -> bool:
    """Return True if the collection was made completely of the pages, with the settings of the experiment."""
    manifest: Mapping[str, Any] = {}
    with suppress(CollectionNotFoundError):
        manifest = describe(client, config.retriever).manifest
    expected = {"state": "complete", "pages_fingerprint": corpus.fingerprint, "chunking": CHUNKING_VERSION}
    # A setting that the experiment leaves out may have any recorded value.
    return expected.items() <= manifest.items() and config.index.named.items() <= recorded_settings(manifest).items()
