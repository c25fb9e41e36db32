"""`python -m evals.run`: one experiment from configuration to report, exit code and MLflow run."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

import yaml

from evals.config.experiment import ExperimentConfig
from evals.config.telemetry import silence
from evals.run.flags import DEFAULT, PRESETS, load_config, parser
from retrievers.config import dump
from retrievers.config.layers import environment
from retrievers.errors import ConfigError
from retrievers.terminal.command import (
    EXIT_INCOMPLETE,
    in_color,
    print_error,
    print_out,
    print_rendered,
    run,
    set_up_logging,
    terminal_width,
    unread_output_allowed,
)
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from evals.experiment.evaluation import Evaluation

__all__ = ["EXIT_FAILED", "PRESETS", "load_config", "main", "parser"]
COMMAND = "python -m evals.run"
EXIT_FAILED = 1


def main(arguments: Sequence[str] | None = None, prog: str = COMMAND) -> int:
    """Parse and run; return the exit code. Usage and errors call the command `prog`."""
    namespace = parser(prog).parse_args(arguments)
    return run(lambda: _main(namespace, prog), prefix="retriever.")


def _main(namespace: argparse.Namespace, prog: str) -> int:
    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file, quiet=namespace.quiet)
    if namespace.list_metrics:
        return _list_metrics()
    env = environment(os.environ)
    config = load_config(namespace, env)
    if namespace.print_config:
        print_out(yaml.safe_dump(dump(config), sort_keys=False).rstrip())
        return 0
    if not (config.dataset.path or config.dataset.hub):
        raise ConfigError(
            f"{namespace.config}: names no golden data: set dataset.path (a .jsonl file or a folder of them), or "
            "dataset.hub"
        )
    silence(hub=bool(config.dataset.hub))
    return _plan(config, namespace, env) if namespace.plan else _run(config, namespace, env, prog)


def _plan(config: ExperimentConfig, namespace: argparse.Namespace, env: Mapping[str, str]) -> int:
    from evals.experiment.flow import plan_experiment

    plan = plan_experiment(
        config, env, shown=not namespace.quiet, width=terminal_width(), from_retrieval=namespace.from_retrieval
    )
    print_rendered(plan.rstrip())
    return 0


def _run(config: ExperimentConfig, namespace: argparse.Namespace, env: Mapping[str, str], prog: str) -> int:
    from evals.api import evaluate, sweep
    from evals.experiment.outputs import Outputs

    evaluation = (sweep if config.sweep.axes else evaluate)(
        experiment=config,
        outputs=Outputs(
            report=namespace.output,
            junit=namespace.junit,
            html=namespace.html,
            export=namespace.export,
            retrieval=namespace.save_retrieval,
        ),
        from_retrieval=namespace.from_retrieval,
        env=env,
        track=config.tracking.enabled,
        progress=not namespace.quiet,
        measured=None
        if namespace.quiet
        else partial(_show, everything=namespace.verbose, command=partial(_next, namespace, prog)),
    )
    if not namespace.quiet and evaluation.report.ragas_check and not evaluation.report.ragas_check.problem:
        print_out(evaluation.report.ragas_check.line)
    if evaluation.outputs.html and not namespace.quiet:
        print_out(f"Page: {evaluation.outputs.html}")
    if config.tracking.enabled and not namespace.quiet and not evaluation.untracked:
        from evals.tracking.store import ui_command

        print_out(f"MLflow: {evaluation.address or ui_command(config.tracking.uri)}")
    if evaluation.incomplete:
        from evals.tracking import late_command

        file = evaluation.outputs.report
        remedy = f"; {late_command(file, config.tracking)} writes it" if file and evaluation.untracked else ""
        note = f" (the report is at {file}{remedy})" if file else ""
        print_error(f"incomplete: {evaluation.incomplete}{note}")
        return EXIT_INCOMPLETE
    return 0 if evaluation.passed or namespace.no_gate else EXIT_FAILED


# Flags of a run that the next one on the same data takes, too.
CARRIED = ("dataset", "retriever", "index", "sources", "judge")
# Of these the ones that are refused without a sweep.
OF_SWEEPS = "judge.stop."


def _next(namespace: argparse.Namespace, prog: str, further: str) -> str:
    """Return the beginning of the next command: its experiment, and the flags of this run without the further ones."""
    file = [] if namespace.config is DEFAULT else [f"--config {quote(str(namespace.config))}"]
    carried = {
        f"--{name.replace('_', '-')}": raw
        for name, raw in vars(namespace).items()
        if name.partition(".")[0] in CARRIED and isinstance(raw, str)
        if "--sweep." in further or not name.startswith(OF_SWEEPS)
    }
    flags = [f"{flag} {quote(redacted(raw))}" for flag, raw in carried.items() if flag not in further.split()]
    return " ".join((prog, *file, *flags))


def _show(evaluation: "Evaluation", *, everything: bool, command: Callable[[str], str]) -> None:
    from evals.report.terminal import render, render_grid

    report, width, color = evaluation.report, terminal_width(), in_color()
    # Page and MLflow come after this, whoever reads it.
    with unread_output_allowed():
        if report.grid:
            print_rendered(render_grid(report, width=width, color=color).rstrip() + "\n")
        beginning = command(report.head.next_flags if report.head else "")
        print_rendered(render(report, width=width, color=color, everything=everything, command=beginning).rstrip())
        if evaluation.outputs.report:
            print_out(f"Report: {evaluation.outputs.report}")


def _list_metrics() -> int:
    from evals.metrics.listing import listing

    print_out(listing())
    return 0
