"""The handbook of the packaged experiments: a checkout of the project has it, an installed package does not."""

from pathlib import Path

from evals.config.experiment import ExperimentConfig
from retrievers.errors import ConfigError

FOLDER = Path(__file__).parents[2] / "datasets"


def check_bundled(config: ExperimentConfig) -> None:
    """Refuse an experiment whose handbook has not come along.

    Raises:
        ConfigError: Golden data or source pages are those of a checkout, and this is none; what to do instead.
    """
    paths = {"dataset.path": config.dataset.path, "sources.dir": config.sources.dir}
    absent = {name: path for name, path in paths.items() if path and path.is_relative_to(FOLDER) and not path.exists()}
    if absent:
        names = ", ".join(f"{name} {path}" for name, path in absent.items())
        raise ConfigError(
            f"the handbook of the packaged experiments comes with a checkout of the project, not with the installed "
            f"package, and is not there: {names}; run this in a checkout, or give an experiment of your own "
            "(--config FILE) that names its golden queries (dataset.path) and its collection (retriever.store, "
            "retriever.collection)"
        )
