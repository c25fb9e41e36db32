"""The flags of `python -m evals.run`, and the experiment that flags, its file and the environment come to."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from evals.config.experiment import ExperimentConfig
from retrievers.config.layers import Layer, add_flags, build, environment_layer, flag_layer
from retrievers.config.settings_file import file_layer
from retrievers.terminal.command import Parser, add_logging_flags, path_argument

PRESETS = Path(__file__).parents[1] / "config" / "presets"


def parser() -> argparse.ArgumentParser:
    """The command's flags: the short ones, then one for every setting."""
    made = Parser(
        prog="python -m evals.run",
        description="Run golden queries through a retriever, score what comes back, log it to MLflow.",
        epilog="Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, 130 interrupted.",
    )
    _add_inputs(made)
    _add_outputs(made)
    made.add_argument("--plan", action="store_true", help="say what the run would call and cost, and stop")
    made.add_argument("--no-gate", action="store_true", help="exit with 0 although a criterion failed")
    made.add_argument("--list-metrics", action="store_true", help="list all metrics and stop")
    made.add_argument("--print-config", action="store_true", help="print the resolved configuration and stop")
    add_logging_flags(made)
    add_flags(made, ExperimentConfig)
    return made


def _add_inputs(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--config", type=path_argument, metavar="FILE", help="experiment file (default: the packaged default.yaml)"
    )
    made.add_argument("--limit", dest="dataset.limit", default=argparse.SUPPRESS, metavar="N", help="at most N cases")
    made.add_argument("--ids", dest="dataset.ids", default=argparse.SUPPRESS, metavar="A,B", help="only these cases")


def _add_outputs(made: argparse.ArgumentParser) -> None:
    for flag, about in (
        ("--output", "where to write the JSON report"),
        ("--junit", "where to write criteria and queries as JUnit XML"),
        ("--html", "where to write the report as one HTML page"),
        ("--export", "write the retriever's settings for an application"),
    ):
        made.add_argument(flag, type=path_argument, metavar="FILE", help=about)


def load_config(namespace: argparse.Namespace, env: Mapping[str, str]) -> ExperimentConfig:
    """The experiment out of flags, file and environment.

    Raises:
        ConfigError: With every fault.
    """
    layers: list[Layer] = [
        environment_layer(env, "retriever."),
        file_layer(namespace.config or PRESETS / "default.yaml", ExperimentConfig),
        flag_layer(namespace, ExperimentConfig),
    ]
    return build(ExperimentConfig, layers)
