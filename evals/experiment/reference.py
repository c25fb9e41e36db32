"""The reference of an experiment, measured in the same run on the same queries."""

from dataclasses import replace

from evals.collect.pool import ground
from evals.experiment import provenance
from evals.experiment.loading import Inputs
from evals.grid.measure import measure
from evals.metrics import choose, declared, reach
from evals.metrics.collaborators import Collaborators
from evals.report.build import build_report
from evals.report.headline import headline
from evals.report.model import Report

# Needs of metrics that are not measured for the reference.
OF_THE_RUN_ALONE = {"latency", "determinism", "index", "judge", "judge usage"}


def reference_report(inputs: Inputs, collaborators: Collaborators) -> Report | None:
    """Return the report of the reference, which is measured now; None without one, and where the judge alone scores.

    Raises:
        RetrievalError: A search failed, or the evidence does not resolve in the reference's collection.
    """
    config, retriever = inputs.reference, collaborators.reference
    if config is None or retriever is None:
        return None
    chosen = headline(choose(inputs.config.metrics, (1,), judged=True, reach=reach(config.retriever)))
    names = tuple(name for name in chosen if declared(name).needs.isdisjoint(OF_THE_RUN_ALONE))
    if not names:
        return None
    own = config.model_copy(update={"metrics": names})
    alone = replace(collaborators, retrievers=[retriever], judge=None)
    grounds = ground(inputs.golden, retriever, collaborators.sources)
    result = measure(own, inputs.golden, grounds, alone)
    return build_report(result, provenance.gather(own, inputs.golden, retriever))
