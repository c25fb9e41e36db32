"""The bench of an experiment: its open retrievers, judge and source pages, and its own collection kept up to date."""

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
from retrievers.store.opening import open_client
from retrievers.terminal.command import Progress


@contextmanager
def open_bench(
    inputs: Inputs, env: Mapping[str, str], progress: Progress, given: Retriever | None = None
) -> Iterator[tuple[Inputs, Collaborators]]:
    """Open what the experiment names: its judge, its retriever (of a sweep one for each variant) and its source pages.

    Args:
        inputs: The experiment; one that starts from a saved retrieval has no retriever.
        env: The environment that holds API keys.
        progress: Called as pages are indexed and queries are retrieved, timed and judged.
        given: An open retriever in place of the one that the experiment names, which is left open.

    Yields:
        The experiment with what its open retriever knows of the collection; and what is open.

    Raises:
        RetrievalError: Something cannot be opened, the collection not be brought up to date, or a setting does not go
            with its distance.
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
            retriever = given or stack.enter_context(_opened(config, inputs.settings[0], env, progress))
            inputs = inputs.searched_by(completed(config.retriever, retriever))
            retrievers = [retriever.with_settings(each) for each in inputs.settings] if inputs.sweep else [retriever]
        sources = open_sources(config.sources)
        yield inputs, Collaborators(retrievers=retrievers, progress=progress, sources=sources, judge=judge)


def _opened(
    config: ExperimentConfig, settings: RetrieverConfig, env: Mapping[str, str], progress: Progress
) -> Retriever:
    """Open the retriever, with the first settings of a sweep; its collection is brought up to date before."""
    embeddings = None
    # Before anything is indexed, so that a missing key or factory leaves nothing behind.
    if settings.python is None:
        embeddings = make_embeddings(settings.embedding, env)
    else:
        load_factory(settings.python, "python")
    index_if_stale(config, env, progress)
    return open_retriever(settings, env=env, embeddings=embeddings, index=config.index)


def index_if_stale(config: ExperimentConfig, env: Mapping[str, str], progress: Callable[[str, int, int], None]) -> bool:
    """Index `sources.dir` if the experiment owns the collection and it is missing, damaged or of other pages.

    Only an embedded collection named by `index.collection` is ever written to.

    Returns:
        Whether anything had to be indexed.

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
        with suppress(CollectionNotFoundError):
            if _is_of(corpus, config, describe(client, retriever).manifest):
                return False
        model, pages, search = make_embeddings(retriever.embedding, env), corpus.readable(), search_settings(retriever)
        index_corpus(client, retriever, model, pages, config.index, replace=True, search=search, progress=progress)
        return True


def _is_of(corpus: Corpus, config: ExperimentConfig, manifest: Mapping[str, Any]) -> bool:
    expected = {
        "state": "complete",
        "pages_fingerprint": corpus.fingerprint,
        "chunking": CHUNKING_VERSION,
    }
    # Settings that the experiment leaves out are as recorded.
    return expected.items() <= manifest.items() and config.index.named.items() <= recorded_settings(manifest).items()
