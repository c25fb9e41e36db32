"""Flag over file over environment over `.env` over default, for any settings in any of them."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import yaml
from hypothesis import given
from hypothesis import strategies as st

from evals.config.experiment import ExperimentConfig
from evals.run import load_config, parser
from retrievers.config.layers import ENVIRONMENT, environment, flatten, leaves, nest

# Of each setting a value for the file and one for the flags, both others than the default.
VALUES: dict[str, tuple[Any, Any]] = {
    "retriever.collection": ("of_file", "of_flag"),
    "retriever.top_k": (13, 14),
    "retriever.threshold": (0.13, 0.14),
    "retriever.mode": ("hybrid", "keyword"),
    "retriever.store.url": ("http://file:1", "http://flag:1"),
    "retriever.store.timeout_s": (3.0, 4.0),
    "retriever.keyword.synonyms": ({"a": ["b"]}, {"c": ["d", "e"]}),
    "retriever.metadata.required": (["title"], ["title", "tags"]),
    "dataset.limit": (3, 4),
    "latency.concurrency": ([1, 3], [1, 4]),
    "sweep.top_k": ([1, 2, 3], [4, 5]),
    "criteria": ({"queries/pass_rate": ">= 0.3"}, {"queries/pass_rate": ">= 0.4"}),
    "judge.temperature": (0.3, None),
    "objective.margin": (0.3, 0.4),
    "seed": (3, 4),
}
VARIABLES = {f"retriever.{setting}": name for name, setting in ENVIRONMENT.items()}
TEXTS = {"retriever.top_k": "1{}", "retriever.threshold": "0.1{}", "retriever.store.url": "http://env:{}"}
NAMES, OF_ENVIRONMENT = st.sets(st.sampled_from([*VALUES])), st.sets(st.sampled_from([*VARIABLES]))


def in_environment(name: str, place: int) -> str:
    return (
        ("semantic", "keyword")[place] if name == "retriever.mode" else TEXTS.get(name, "of_env_{}").format(place + 1)
    )


@given(OF_ENVIRONMENT, OF_ENVIRONMENT, NAMES, NAMES)
def test_a_setting_comes_from_the_highest_layer_that_names_it(
    dotenv: set[str], environ: set[str], in_file: set[str], in_flags: set[str]
) -> None:
    with TemporaryDirectory() as folder, patch.dict(os.environ):
        file, hidden = Path(folder) / "e.yaml", Path(folder) / ".env"
        file.write_text(yaml.safe_dump({"name": "mine", **nest({name: VALUES[name][0] for name in in_file})}))
        hidden.write_text("".join(f"{VARIABLES[name]}={in_environment(name, 0)}\n" for name in dotenv))
        env = environment({VARIABLES[name]: in_environment(name, 1) for name in environ}, hidden)
        flags = [f"--{n.replace('_', '-')}={written(VALUES[n][1])}" for n in sorted(in_flags)]
        config = load_config(parser().parse_args(["--config", str(file), *flags]), env)
    found = dict(flatten(config.model_dump(mode="json")))
    expected = dict(flatten(ExperimentConfig().model_dump(mode="json"))) | {"name": "mine"}
    for names, values in (
        (dotenv, {name: in_environment(name, 0) for name in dotenv}),
        (environ, {name: in_environment(name, 1) for name in environ}),
        (in_file, {name: VALUES[name][0] for name in in_file}),
        (in_flags, {name: VALUES[name][1] for name in in_flags}),
    ):
        for name in names:
            expected = {n: v for n, v in expected.items() if n != name and not n.startswith(f"{name}.")}
            expected |= dict(flatten(nest({name: values[name]})))
    # A flag that names one value ends the file's sweep of it.
    swept = {name.replace("retriever.", "sweep.") for name in in_flags}
    expected |= {name: [] for name in (swept & in_file) - in_flags}
    assert {name: str(value) for name, value in found.items()} == {name: str(value) for name, value in expected.items()}
    assert {*VALUES} <= {*leaves(ExperimentConfig)}


def written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
