import re
from typing import Any

import pytest

from evals.config.experiment import ExperimentConfig
from evals.experiment.outputs import run_names
from evals.grid.axes import plan

STAMP = "20260102-030405"


def named(sweep: dict[str, Any] | None = None, **retriever: Any) -> str:
    config = ExperimentConfig.model_validate({"name": "mine", "retriever": retriever, "sweep": sweep or {}})
    name, stem = run_names(config, plan(config.retriever, config.sweep) if sweep else None)
    assert re.fullmatch(r"mine-20\d{6}-\d{6}", stem)
    return name.replace(stem.removeprefix("mine-"), STAMP)


@pytest.mark.parametrize(
    ("retriever", "label"),
    [
        ({"mode": "hybrid", "top_k": 8, "threshold": 0.25}, "hybrid k8 t0.25"),
        ({"mode": "hybrid", "rerank": "mmr"}, "hybrid+mmr k5 t0.3"),
        ({"mode": "semantic", "threshold": 1 / 3}, "semantic k5 t0.333"),
        ({"python": "package.module:make"}, "make k5"),
    ],
)
def test_a_run_is_named_by_its_settings(retriever: dict[str, Any], label: str) -> None:
    assert named(**retriever) == f"{label} mine {STAMP}"


def test_a_grid_is_named_by_its_number_of_cells_and_its_modes() -> None:
    sweep = {"mode": ["semantic", "hybrid"], "top_k": [3, 5, 8], "threshold": [0.0, 0.3]}
    assert named(sweep) == f"grid 12 cells semantic,hybrid mine {STAMP}"
