"""The open resources of an experiment, closed at the end."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from evals.config.experiment import ExperimentConfig
from evals.config.judge import JudgeConfig
from evals.experiment.embedded_index import index_if_stale
from evals.experiment.loading import Inputs
from evals.golden.source_pages import Sources
from evals.golden.web_pages import open_sources
from evals.grid.axes import Plan
from evals.judge.judge import Judge
from evals.metrics.collaborators import Collaborators
from evals.report.judge_lines import spent
from retrievers.config import RetrieverConfig, factory
from retrievers.embedding.models import make_embeddings
from retrievers.net.patience import patient
from retrievers.retriever.opened import open_retriever
from retrievers.retriever.protocol import Retriever
from retrievers.terminal.command import Progress


@contextmanager
def open_collaborators(
    inputs: Inputs, env: Mapping[str, str], progress: Progress, *, retrievers: Sequence[Retriever] = ()
) -> Iterator[Collaborators]:
    """Open what the experiment names: its judge, its retriever (of a sweep one for each variant) and its source pages.

    Args:
        inputs: The experiment.
        env: The environment that holds API keys.
        progress: Called as pages are indexed and queries are retrieved, timed and judged.
        retrievers: Open retrievers in place of those that the experiment names. They are left open.

    Raises:
        RetrievalError: Something cannot be opened, or the collection not be brought up to date.
    """
    config = inputs.config
    with patient(config.retriever.store.wait_s), _judge(config.judge, env, progress) as judge:
        if retrievers:
            sources = open_sources(config.sources)
            yield Collaborators(retrievers=retrievers, progress=progress, sources=sources, judge=judge)
            return
        with _retrievers(inputs, env, progress) as (opened, reference, sources):
            yield Collaborators(retrievers=opened, progress=progress, sources=sources, judge=judge, reference=reference)


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


@contextmanager
def _retrievers(
    inputs: Inputs, env: Mapping[str, str], progress: Progress
) -> Iterator[tuple[Sequence[Retriever], Retriever | None, Sources | None]]:
    config, reference = inputs.config, inputs.reference
    # Before anything is indexed, so that a missing key or factory leaves nothing behind.
    embeddings = None
    if config.retriever.python is None:
        embeddings = make_embeddings(config.retriever.embedding, env)
    else:
        factory.find(config.retriever.python, "python")
    for own in (config, *([reference] if reference else [])):
        index_if_stale(own, env, progress)
    sources = open_sources(config.sources)
    with ExitStack() as stack:

        def opened(experiment: ExperimentConfig, settings: RetrieverConfig) -> Retriever:
            shared = embeddings if settings.embedding == config.retriever.embedding else None
            return stack.enter_context(open_retriever(settings, env=env, embeddings=shared, index=experiment.index))

        retrievers = [opened(config, settings) for settings in _wanted(config, inputs.sweep)]
        yield retrievers, opened(reference, reference.retriever) if reference else None, sources


def _wanted(config: ExperimentConfig, sweep: Plan | None) -> list[RetrieverConfig]:
    return [config.retriever] if sweep is None else [variant.settings for variant in sweep.variants]
