"""The flags of `python -m evals.run`, and the experiment built from flags, file and environment."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from evals.config.experiment import ExperimentConfig
from evals.config.files import PRESETS, experiment_file, named_folders, packaged
from evals.run.help import add_help
from retrievers.config.layers import add_flags, build, environment_layer, file_layer, flag_layer, flatten
from retrievers.terminal.command import Parser, add_logging_flags, path_argument

DEFAULT = Path("default")
# Settings that name other golden data than those of the default experiment.
OTHER_DATA = {"dataset.path", "dataset.hub"}
__all__ = ["DEFAULT", "PRESETS", "load_config", "packaged", "parser"]


def parser(prog: str = "python -m evals.run") -> argparse.ArgumentParser:
    """Return the parser of the command's flags: the short ones, then one for every setting."""
    command = Parser(
        prog=prog,
        description="Run golden queries through a retriever, score what comes back, log it to MLflow.",
        usage=f"{prog} [--config FILE] [--SETTING VALUE ...]",
        add_help=False,
        epilog="Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, "
        "130 interrupted, 143 terminated.",
    )
    add_help(command)
    _add_inputs(command)
    _add_outputs(command)
    _add_retrieval(command)
    command.add_argument("--plan", action="store_true", help="say what the run would call and cost, and stop")
    command.add_argument("--no-gate", action="store_true", help="exit with 0 although a criterion failed")
    command.add_argument("--list-metrics", action="store_true", help="list all metrics and stop")
    command.add_argument("--print-config", action="store_true", help="print the resolved configuration and stop")
    add_logging_flags(command)
    add_flags(command, ExperimentConfig)
    return command


def _add_inputs(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config",
        type=path_argument,
        default=DEFAULT,
        metavar="FILE",
        help=f"experiment file, or a packaged one by its name: {', '.join(packaged())} (default: default, "
        "but on data of your own none)",
    )
    command.add_argument(
        "--limit", dest="dataset.limit", default=argparse.SUPPRESS, metavar="N", help="at most N cases"
    )
    command.add_argument("--ids", dest="dataset.ids", default=argparse.SUPPRESS, metavar="A,B", help="only these cases")


def _add_outputs(command: argparse.ArgumentParser) -> None:
    for flag, about in (
        ("--output", "where to write the JSON report"),
        ("--junit", "where to write criteria and queries as JUnit XML"),
        ("--html", "where to write the report as one HTML page"),
        ("--export", "write the retriever's settings for an application"),
    ):
        command.add_argument(flag, type=path_argument, metavar="FILE", help=about)


def _add_retrieval(command: argparse.ArgumentParser) -> None:
    either = command.add_mutually_exclusive_group()
    for flag, about in (
        ("--save-retrieval", "save what was retrieved, so that other runs can start from it"),
        ("--from-retrieval", "start from a saved retrieval: no store is opened, and nothing embedded"),
    ):
        either.add_argument(flag, type=path_argument, metavar="FILE", help=about)


def load_config(namespace: argparse.Namespace, env: Mapping[str, str]) -> ExperimentConfig:
    """Build the experiment from flags, file and environment; the default one has no part in a run on other data.

    Raises:
        ConfigError: Any setting has a fault; the message names every one.
    """
    flags = flag_layer(namespace, ExperimentConfig)
    layers = [environment_layer(env, "retriever."), flags]
    # What the default experiment says, it says of its own golden data.
    if namespace.config is not DEFAULT or OTHER_DATA.isdisjoint(dict(flatten(flags.values))):
        layers.insert(1, file_layer(experiment_file(namespace.config), ExperimentConfig, named_folders(env)))
    return build(ExperimentConfig, layers)
