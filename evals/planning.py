"""`--plan`: what a run would call and cost, found out without a call of the judge."""

from collections.abc import Mapping

from evals import candidates
from evals.config import ExperimentConfig
from evals.dataset.load import GoldenSet
from evals.dataset.relevance import Relevance
from evals.judge.judge import Judge
from evals.judge.plan import plan
from evals.metrics import choose
from evals.records import Observation
from evals.report.plan import render_plan, retrieval_calls
from retrievers.protocol import Retriever


def describe_plan(
    config: ExperimentConfig,
    golden: GoldenSet,
    retriever: Retriever,
    judge: Judge | None,
    progress: candidates.Progress,
    *,
    width: int,
) -> str:
    """Retrieve once, which embeds every query, and count what everything else would call.

    Raises:
        RetrievalError: A search failed.
    """
    metrics = choose([*config.metrics, *config.criteria], config.latency.concurrency, judged=judge is not None)
    found = candidates.collect(retriever, golden.cases, progress)
    nothing = Relevance(grades={}, items=())
    observations = [
        Observation(
            case=case,
            relevance=nothing,
            candidates=found[case.id],
            selection=retriever.select(found[case.id].chunks).chunks,
        )
        for case in golden.cases
    ]
    made = plan(judge, list(metrics), observations) if judge else None
    lines = retrieval_calls(config.retriever, len(golden.cases), *_further_searches(config, metrics, len(golden.cases)))
    return render_plan(made, lines, width=width, color=False)


def _further_searches(config: ExperimentConfig, metrics: Mapping[str, object], cases: int) -> tuple[int, int]:
    latency = determinism = 0
    if any(name.startswith("latency/") for name in metrics):
        latency = config.latency.warmup + config.latency.repeats * cases * len(config.latency.concurrency)
    if any(name.startswith("determinism/") for name in metrics):
        determinism = config.determinism.repeats * cases
    return latency, determinism
