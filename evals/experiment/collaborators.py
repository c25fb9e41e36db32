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
        with _retrievers(config, inputs.sweep, env, progress) as (opened, sources):
            yield Collaborators(retrievers=opened, progress=progress, sources=sources, judge=judge)


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
    config: ExperimentConfig, sweep: Plan | None, env: Mapping[str, str], progress: Progress
) -> Iterator[tuple[Sequence[Retriever], Sources | None]]:
    # Before anything is indexed, so that a missing key or factory leaves nothing behind.
    embeddings = None
    if config.retriever.python is None:
        embeddings = make_embeddings(config.retriever.embedding, env)
    else:
        factory.find(config.retriever.python, "python")
    index_if_stale(config, env, progress)
    sources = open_sources(config.sources)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(open_retriever(settings, env=env, embeddings=embeddings, index=config.index))
            for settings in _wanted(config, sweep)
        ]
        yield opened, sources


def _wanted(config: ExperimentConfig, sweep: Plan | None) -> list[RetrieverConfig]:
    return [config.retriever] if sweep is None else [variant.settings for variant in sweep.variants]
