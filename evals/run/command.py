"""`python -m evals.run`: one experiment from configuration to report, exit code and MLflow run."""

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import yaml

from evals.config.experiment import ExperimentConfig
from evals.config.telemetry import silence
from evals.run.flags import PRESETS, load_config, parser
from retrievers.config import dump
from retrievers.config.layers import environment
from retrievers.terminal.command import (
    EXIT_INCOMPLETE,
    in_color,
    print_error,
    print_out,
    print_rendered,
    run,
    set_up_logging,
    terminal_width,
)

if TYPE_CHECKING:
    from evals.experiment.finished import Outcome

__all__ = ["EXIT_FAILED", "PRESETS", "load_config", "main", "parser"]
EXIT_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    namespace = parser().parse_args(arguments)
    return run(lambda: _main(namespace), prefix="retriever.")


def _main(namespace: argparse.Namespace) -> int:
    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file, quiet=namespace.quiet)
    if namespace.list_metrics:
        return _list_metrics()
    env = environment(os.environ)
    config = load_config(namespace, env)
    if namespace.print_config:
        print_out(yaml.safe_dump(dump(config), sort_keys=False).rstrip())
        return 0
    silence(hub=bool(config.dataset.hub))
    return _plan(config, namespace, env) if namespace.plan else _run(config, namespace, env)


def _plan(config: ExperimentConfig, namespace: argparse.Namespace, env: Mapping[str, str]) -> int:
    from evals.experiment.flow import plan_experiment

    print_rendered(plan_experiment(config, env, shown=not namespace.quiet, width=terminal_width()).rstrip())
    return 0


def _run(config: ExperimentConfig, namespace: argparse.Namespace, env: Mapping[str, str]) -> int:
    from evals.api import evaluate, sweep
    from evals.experiment.output_files import Outputs

    outcome = (sweep if config.sweep.axes else evaluate)(
        experiment=config,
        outputs=Outputs(report=namespace.output, junit=namespace.junit, html=namespace.html, export=namespace.export),
        env=env,
        track=config.tracking.enabled,
        progress=not namespace.quiet,
    ).outcome
    if not namespace.quiet:
        _show(outcome, everything=namespace.verbose)
    if outcome.incomplete:
        kept = f" (the report is at {outcome.outputs.report})" if outcome.outputs.report else ""
        print_error(f"incomplete: {outcome.incomplete}{kept}")
        return EXIT_INCOMPLETE
    failed = any(not gate.passed for gate in outcome.result.gates)
    return EXIT_FAILED if failed and not namespace.no_gate else 0


def _show(outcome: "Outcome", *, everything: bool) -> None:
    from evals.report.grid_terminal import render_grid
    from evals.report.terminal import render

    width, color = terminal_width(), in_color()
    if outcome.grid:
        print_rendered(render_grid(outcome.grid, width=width, color=color).rstrip() + "\n")
    print_rendered(render(outcome.result, width=width, color=color, everything=everything).rstrip())
    if outcome.outputs.report:
        print_out(f"Report: {outcome.outputs.report}")
    if outcome.outputs.html:
        print_out(f"Page: {outcome.outputs.html}")


def _list_metrics() -> int:
    from evals.metrics import METRICS, VERDICT_METRIC

    width = max(map(len, METRICS))
    print_out(f"{VERDICT_METRIC:<{width}}  queries whose verdict is SUCCESS")
    for name, metric in METRICS.items():
        print_out(f"{name:<{width}}  {metric.about}")
    return 0
