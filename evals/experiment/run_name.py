"""The name of a run that was given none: what it measures first, since tables cut names short. Pure."""

from evals.config.experiment import ExperimentConfig
from evals.config.run_label import run_label
from evals.grid.axes import Plan


def run_name(config: ExperimentConfig, sweep: Plan | None, stamp: str) -> str:
    """Return a name such as `hybrid k5 t0.3 default 20260102-030405`, or `grid 96 cells hybrid ...` of a sweep.

    Args:
        config: The experiment.
        sweep: The grid that it asks for, None for a single run.
        stamp: Its time, which makes the name unique.
    """
    label = _grid_label(sweep) if sweep else run_label(config.retriever)
    return f"{label} {config.name} {stamp}"


def _grid_label(sweep: Plan) -> str:
    settings = [variant.settings for variant in sweep.variants]
    which = ",".join(
        dict.fromkeys(setting.python.rpartition(":")[2] if setting.python else setting.mode for setting in settings)
    )
    thresholds = (1 if setting.used_threshold is None else len(sweep.thresholds) for setting in settings)
    return f"grid {len(sweep.top_ks) * sum(thresholds)} cells {which}"
