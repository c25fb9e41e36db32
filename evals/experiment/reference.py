"""The reference of an experiment, measured in the same run on the same queries."""

from dataclasses import replace

from evals.collect.pool import ground
from evals.experiment import provenance
from evals.experiment.loading import Inputs
from evals.grid.measure import measure
from evals.metrics import choose, declared, reach
from evals.metrics.collaborators import Collaborators
from evals.report.building import build_report
from evals.report.building.compared import compared_section
from evals.report.comparison.comparing import ComparisonOptions, compare
from evals.report.headline import headline
from evals.report.model import Report
from evals.tracking.find import run_of

# Needs of metrics that are not measured for the reference.
OF_THE_RUN_ALONE = {"latency", "determinism", "index", "judge", "judge usage"}


def beside_reference(report: Report, inputs: Inputs, collaborators: Collaborators) -> Report:
    """Return the report with its comparison with the reference, which is measured now.

    It is as it is without a reference, and where the judge alone gives its metrics.

    Raises:
        RetrievalError: A search failed, or the evidence does not resolve in the reference's collection.
    """
    config, retriever = inputs.reference, collaborators.reference
    if config is None or retriever is None:
        return report
    lists = reach(config.retriever)
    chosen = headline(choose(inputs.config.metrics, (1,), judged=True, reach=lists))
    names = tuple(name for name in chosen if declared(name).needs.isdisjoint(OF_THE_RUN_ALONE))
    if not names:
        return report
    own = config.model_copy(update={"metrics": names})
    alone = replace(collaborators, retrievers=[retriever], judge=None)
    grounds = ground(inputs.golden, retriever, collaborators.sources)
    result = measure(own, inputs.golden, grounds, alone)
    reference = run_of(build_report(result, provenance.gather(own, inputs.golden, retriever)))
    [comparison] = compare(reference, [run_of(report)], ComparisonOptions(metrics=tuple(reference.report.metrics)))
    return report.model_copy(update={"reference": compared_section(comparison)})
