from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.run import load_config, parser
from retrievers.errors import ConfigError
from tests.support.experiment import SETTINGS, Experiment, make_experiment, settings


@pytest.fixture
def made(tmp_path: Path) -> Experiment:
    return make_experiment(tmp_path)


@pytest.mark.parametrize("written", ["1:3", "1,2,3", [1, 2, 3], ["1:2", 3], "[1, 2, 3]"])
def test_an_axis_is_written_the_same_everywhere(made: Experiment, written: Any) -> None:
    made.write_config({**SETTINGS, "sweep": {"top_k": written}})
    assert settings(made).sweep.axes == {"top_k": (1, 2, 3)}
    flag = written if isinstance(written, str) else ",".join(map(str, written))
    namespace = parser().parse_args(["--config", str(made.config), "--sweep.top-k", flag])
    assert load_config(namespace, {}).sweep.axes == {"top_k": (1, 2, 3)}


def test_a_range_in_a_file_needs_no_quotes(made: Experiment) -> None:
    """YAML 1.1 would take 1:20 for the number 80."""
    text = made.config.read_text(encoding="utf-8")
    made.config.write_text(f"{text}sweep: {{top_k: 1:20, threshold: 0:0.95:0.05, mode: [semantic, hybrid]}}\n")
    axes = settings(made).sweep.axes
    assert axes["top_k"] == tuple(range(1, 21))
    assert axes["threshold"] == tuple(round(0.05 * step, 2) for step in range(20))


def test_no_sweep_is_no_axis(made: Experiment) -> None:
    assert settings(made).sweep.axes == {}


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"top_k": "0:3"}, "sweep.top_k: expected whole numbers from 1"),
        ({"top_k": "1:2:0.5"}, "sweep.top_k: expected whole numbers, found 1.5"),
        ({"top_k": "ten"}, "sweep.top_k: expected numbers such as 5, a list of them, or a range such as 1:20"),
        ({"threshold": [0, float("inf")]}, "sweep.threshold: expected finite"),
        ({"threshold": "exactly"}, "found 'exactly'"),
        ({"threshold": "exact"}, "'exact' is no value any more"),
        ({"threshold": "0:1:0.3"}, "steps of 0.3 lead from 0 to 0.9 or 1.2 and miss 1"),
        ({"mode": "semantik"}, "sweep.mode.0: Input should be 'semantic', 'keyword' or 'hybrid', got 'semantik'"),
        ({"topk": "1:3"}, "sweep.topk: unknown setting"),
    ],
)
def test_an_axis_that_cannot_be_is_refused(made: Experiment, sweep: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(made, sweep=sweep)
    assert said in str(raised.value)


def test_an_objective_is_a_metric_or_several_with_weights(made: Experiment) -> None:
    assert settings(made).objective.metrics == {"ranking/ndcg_at_10": 1.0}
    assert settings(made, objective__metrics="scope/abstention").objective.metrics == {"scope/abstention": 1.0}
    several = {"ranking/recall_at_5": 0.5, "scope/false_answer": -1.0}
    assert settings(made, objective__metrics=several).objective.metrics == several
    for written in ("ranking/mrr_at_5, scope/abstention", ["ranking/mrr_at_5", "scope/abstention"]):
        both = settings(made, objective__metrics=written).objective.metrics
        assert both == {"ranking/mrr_at_5": 1.0, "scope/abstention": 1.0}


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ({"metrics": {"scope/abstention": 0}}, "scope/abstention: expected a weight above or below 0"),
        ({"metrics": {}}, "at least 1"),
        ({"constraints": {"scope/false_answer": "0.1"}}, "expected a condition such as '>= 0.8', got '0.1'"),
        ({"margin": -0.1}, "greater than or equal to 0"),
    ],
)
def test_an_objective_that_cannot_be_is_refused(made: Experiment, objective: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(made, objective=objective)
    assert said in str(raised.value)
