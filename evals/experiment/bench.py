"""The bench of an experiment: its open retrievers, judge and source pages, and its own collection kept up to date."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

from evals.cases.pages import Sources, open_sources
from evals.config.experiment import ExperimentConfig
from evals.config.judge import JudgeConfig
from evals.experiment.inputs import Inputs
from evals.grid.axes import plan
from evals.judge.judge import Judge
from evals.metrics.collaborators import Collaborators
from evals.report.sections import spent
from retrievers.config import RetrieverConfig, factory
from retrievers.config.indexing import recorded_settings
from retrievers.embedding.models import make_embeddings
from retrievers.errors import CollectionNotFoundError, ConfigError
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.index import IndexOptions, index_corpus
from retrievers.indexing.pages import Corpus, read_corpus
from retrievers.net.retry import patient
from retrievers.records import Distance
from retrievers.retriever.opened import open_retriever, search_settings, variants
from retrievers.retriever.protocol import Retriever
from retrievers.store import describe, open_client, read_info, with_distance
from retrievers.terminal.command import Progress


@contextmanager
def open_bench(
    inputs: Inputs, env: Mapping[str, str], progress: Progress, *, retrievers: Sequence[Retriever] | None = None
) -> Iterator[Collaborators]:
    """Open what the experiment names: its judge, its retriever (of a sweep one for each variant) and its source pages.

    Args:
        inputs: The experiment.
        env: The environment that holds API keys.
        progress: Called as pages are indexed and queries are retrieved, timed and judged.
        retrievers: Open retrievers in place of those that the experiment names, which are left open; empty where
            nothing is searched.

    Raises:
        RetrievalError: Something cannot be opened, or the collection not be brought up to date.
    """
    config = inputs.config
    with patient(config.retriever.store.wait_s), _judge(config.judge, env, progress) as judge, ExitStack() as stack:
        if retrievers is None:
            opened, reference, sources = _opened(inputs, env, progress, stack)
        else:
            opened, reference, sources = retrievers, None, open_sources(config.sources)
        yield Collaborators(retrievers=opened, progress=progress, sources=sources, judge=judge, reference=reference)


def with_its_distance(inputs: Inputs, env: Mapping[str, str], saved: Mapping[str, Any] | None = None) -> Inputs:
    """Return an experiment whose settings, and those of its sweep, have the distance of the collection.

    Thresholds, their direction and the fusions that can be follow from it, and so it is read before all else.

    Args:
        inputs: The experiment.
        env: The environment that holds API keys.
        saved: Settings with which it was searched, in place of the collection.

    Raises:
        RetrievalError: The store cannot be asked, or a setting does not go with the distance.
    """
    config, settings = inputs.config, inputs.config.retriever
    if settings.python is not None or owns_collection(config):
        return inputs
    completed = _of_collection(settings, env) if saved is None else _of_saved(saved.get("distance"), settings)
    if completed == settings:
        return inputs
    whole = config.model_copy(update={"retriever": completed})
    return replace(inputs, config=whole, sweep=plan(completed, config.sweep) if inputs.sweep else None)


@contextmanager
def _judge(config: JudgeConfig, env: Mapping[str, str], progress: Progress) -> Iterator[Judge | None]:
    if config.model is None:
        yield None
        return
    judge = Judge.open(config, env, lambda done, total, usage: progress("judging", done, total, spent(usage)))
    try:
        yield judge
    finally:
        judge.close()


def _opened(
    inputs: Inputs, env: Mapping[str, str], progress: Progress, stack: ExitStack
) -> tuple[Sequence[Retriever], Retriever | None, Sources | None]:
    """Open the retrievers, that of the reference and the source pages; the collections are brought up to date first."""
    config, reference, embeddings = inputs.config, inputs.reference, None
    # Before anything is indexed, so that a missing key or factory leaves nothing behind.
    if config.retriever.python is None:
        embeddings = make_embeddings(config.retriever.embedding, env)
    else:
        factory.find(config.retriever.python, "python")
    for own in filter(None, (config, reference)):
        index_if_stale(own, env, progress)
    sources = open_sources(config.sources)

    def opened(experiment: ExperimentConfig, settings: RetrieverConfig) -> Retriever:
        shared = embeddings if settings.embedding == config.retriever.embedding else None
        return stack.enter_context(open_retriever(settings, env=env, embeddings=shared, index=experiment.index))

    first, *others = [one.settings for one in inputs.sweep.variants] if inputs.sweep else [config.retriever]
    retrievers = [opened(config, first)]
    if config.retriever.python is None:
        retrievers += [opened(config, settings) for settings in others]
    else:  # the factory is called once
        retrievers += variants(retrievers[0], others)
    return retrievers, opened(reference, reference.retriever) if reference else None, sources


def _of_collection(settings: RetrieverConfig, env: Mapping[str, str]) -> RetrieverConfig:
    with patient(settings.store.wait_s):
        client = open_client(settings.store, env)
        try:
            return with_distance(settings, read_info(client, settings))
        finally:
            client.close()


def _of_saved(distance: Distance | None, settings: RetrieverConfig) -> RetrieverConfig:
    if distance is None:
        return settings
    try:
        return settings.compared_by(distance)
    except ValueError as error:
        raise ConfigError(f"the saved retrieval is of a collection with the distance {distance}: {error}") from None


def index_if_stale(config: ExperimentConfig, env: Mapping[str, str], progress: Callable[[str, int, int], None]) -> bool:
    """Index `sources.dir` if the experiment owns the collection and it is missing, damaged or of other pages.

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
        with suppress(CollectionNotFoundError):
            if not _differences(config, corpus, describe(client, retriever).manifest):
                return False
        embeddings = make_embeddings(retriever.embedding, env)
        options = IndexOptions(settings=config.index, replace=True, search=search_settings(retriever))
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
    retriever = config.retriever
    is_named = retriever.python is None or retriever.names_collection
    is_own = not retriever.store.url and retriever.collection == config.index.collection
    return is_named and is_own and config.sources.dir is not None


def _own_pages(config: ExperimentConfig) -> Corpus | None:
    """Return the pages of the collection that the experiment owns; None where it owns none."""
    folder = config.sources.dir if owns_collection(config) else None
    return None if folder is None else read_corpus(folder, config.sources.base_url)


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
