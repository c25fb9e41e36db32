"""`python -m evals.run`: run an experiment or a grid, from its settings to report, exit code and MLflow run.

The functions import what they call, so that Ctrl-C ends the command with a line even during these imports.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from retrievers.terminal import start

if TYPE_CHECKING:
    from evals.config.experiment import ExperimentConfig
    from evals.experiment.evaluation import Evaluation

DEFAULT = Path("default")
# Settings that name golden data other than those of the default experiment.
OTHER_DATA = {"dataset.path", "dataset.hub"}
FILES = {
    "--output": "where to write the JSON report",
    "--junit": "where to write the criteria as JUnit XML",
    "--html": "where to write the report as one HTML page",
    "--export": "write the retriever's settings for an application",
    "--refit": "fit the threshold of a retriever that --export wrote anew, on the same data, and write it back",
    "--save-retrieval": "save what was retrieved, so that other runs can start from it",
    "--from-retrieval": "start from a saved retrieval: no store is opened, and nothing embedded",
}
SWITCHES = {
    "--plan": "say what the run would call and cost, and stop",
    "--no-gate": "exit with 0 although a criterion failed",
    "--list-metrics": "list all metrics and stop",
    "--print-config": "print the resolved configuration and stop",
}
# Flags that `--help` shows. `--help-all` shows all flags.
USUAL = (
    "--config", "--dataset.path", "--dataset.split", "--limit", "--retriever.mode", "--retriever.top-k",
    "--retriever.threshold", "--retriever.rerank", "--metrics", "--judge.model", "--sweep.mode", "--sweep.top-k",
    "--sweep.threshold", "--output", "--html", "--export", "--plan", "--no-gate", "--print-config", "--verbose",
    "--help-all",
)  # fmt: skip
# Sections whose flags the proposed next command repeats. With a judge it repeats the metrics, too, which cost money.
CARRIED = ("dataset", "retriever", "index", "sources", "judge", "criteria", "threshold")


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.run") -> int:
    """Parse the flags and run; return the exit code. Usage and errors call the command `prog`."""
    from retrievers.terminal.command import run

    return run(_main, parser(prog).parse_args(arguments), prog)


def load_config(namespace: argparse.Namespace, env: Mapping[str, str]) -> "ExperimentConfig":
    """Build the experiment from flags, file and environment. On data of the user, the default experiment is not read.

    Raises:
        ConfigError: A setting has a fault. The message names all faults.
    """
    from evals.config.experiment import ExperimentConfig
    from evals.config.files import experiment_file, named_folders
    from retrievers.config.layers import build, environment_layer, file_layer, flag_layer, flatten
    from retrievers.errors import ConfigError

    flags, layers = flag_layer(namespace, ExperimentConfig), [environment_layer(env, "retriever.")]
    given = {name for name, value in flatten(flags.values) if value is not None}
    if "retriever.threshold" in given and ("threshold.false_answer" in given or namespace.refit):
        fits = "--refit" if namespace.refit else "--threshold.false-answer"
        raise ConfigError(f"{fits} fits the threshold; expected it or --retriever.threshold, not both")
    # The default experiment is about its own golden data.
    if namespace.config is not DEFAULT or (OTHER_DATA.isdisjoint(given) and not namespace.refit):
        layers.append(file_layer(experiment_file(namespace.config), ExperimentConfig, named_folders(env)))
    if namespace.refit:
        from evals.experiment.outputs import fit_layer

        layers.append(fit_layer(namespace.refit))
    return build(ExperimentConfig, [*layers, flags])


def _main(namespace: argparse.Namespace, prog: str) -> int:
    from evals.config.telemetry import silence
    from retrievers.config.layers import environment
    from retrievers.terminal.command import print_out, print_rendered, set_up_logging, terminal_width

    set_up_logging(verbose=namespace.verbose, quiet=namespace.quiet)
    if namespace.list_metrics:
        from evals.metrics import listing

        print_out(listing())
        return 0
    env = environment(os.environ)
    config = load_config(namespace, env)
    if namespace.print_config:
        import yaml

        from retrievers.config import dump

        print_out(yaml.safe_dump(dump(config), sort_keys=False).rstrip())
        return 0
    silence(hub=bool(config.dataset.hub))
    if not namespace.plan:
        return _run(config, namespace, prog)
    from evals.experiment.flow import plan_experiment

    shown, width = not namespace.quiet, terminal_width()
    plan = plan_experiment(config, env, shown=shown, width=width, from_retrieval=namespace.from_retrieval)
    print_rendered(plan.rstrip())
    return 0


def _run(config: "ExperimentConfig", namespace: argparse.Namespace, prog: str) -> int:
    from evals.api import evaluate, sweep
    from evals.config.files import check_apart, experiment_file
    from evals.experiment.outputs import Outputs, fit_changes, read_fit
    from evals.tracking.runs import late_command
    from retrievers.terminal.command import EXIT_FAILED, EXIT_INCOMPLETE, print_error, print_out

    outputs = Outputs(
        report=namespace.output,
        junit=namespace.junit,
        html=namespace.html,
        export=namespace.export,
        refit=None if namespace.export else namespace.refit,
        retrieval=namespace.save_retrieval,
    )
    check_apart(vars(outputs).values(), [experiment_file(namespace.config), namespace.export and namespace.refit])
    before = read_fit(namespace.refit) if namespace.refit else {}
    evaluation = (sweep if config.sweep.axes else evaluate)(
        experiment=config,
        outputs=outputs,
        from_retrieval=namespace.from_retrieval,
        track=config.tracking.enabled,
        progress=not namespace.quiet,
        measured=None if namespace.quiet else partial(_show, namespace=namespace, prog=prog),
    )
    report, file = evaluation.report, evaluation.outputs.report
    lines = [report.ragas_check.line] if report.ragas_check and not report.ragas_check.problem else []
    if namespace.refit:
        is_left = outputs.refit and not report.passed
        left = f"{namespace.refit}: left as it was, as the run did not pass; --export FILE writes the new fit"
        lines.append(left if is_left else fit_changes(outputs.export or namespace.refit, before))
    elif outputs.export:
        lines.append(f"Retriever: {outputs.export}")
    if namespace.html:
        lines.append(f"Page: {namespace.html}")
    if config.tracking.enabled and not evaluation.untracked:
        from evals.tracking.store import ui_command

        lines.append(f"MLflow: {evaluation.address or ui_command(config.tracking.uri)}")
    for line in () if namespace.quiet else lines:
        print_out(line)
    if evaluation.incomplete:
        remedy = f"; {late_command(file, config.tracking)} writes it" if file and evaluation.untracked else ""
        print_error(f"incomplete: {evaluation.incomplete}{f' (the report is at {file}{remedy})' if file else ''}")
        return EXIT_INCOMPLETE
    return 0 if evaluation.passed or namespace.no_gate else EXIT_FAILED


def _show(evaluation: "Evaluation", *, namespace: argparse.Namespace, prog: str) -> None:
    from evals.report.head import PAGE
    from evals.report.terminal import render
    from retrievers.terminal.command import look, print_out, print_rendered

    report, file = evaluation.report, evaluation.outputs.report
    # Without the judge of a file, its metrics are not those of the file.
    is_judged = report.judge or vars(namespace).get("judge.model") == "null"
    further = ["metrics"] * bool(is_judged)
    # The next grid is to decide as this run does.
    further += ["objective", "seed"] * ("--sweep." in report.next_flags)
    further += ["baseline"] * ("--dataset." not in report.next_flags)  # it is of the queries of this run
    # What was chosen is exported, or the grid has written a new fit.
    is_fitted = bool(report.config.get("threshold", {}).get("false_answer"))
    is_last = (namespace.export and is_fitted == bool(report.grid)) or (namespace.refit and report.grid)
    is_last = is_last or (namespace.html and report.next_flags == PAGE)
    command = "" if is_last else _next_command(namespace, prog, report.next_flags, (*CARRIED, *further))
    print_rendered(render(report, **look(), everything=namespace.verbose, command=command).rstrip())
    if file:
        print_out(f"Report: {file}")


def _next_command(namespace: argparse.Namespace, prog: str, next_flags: str, carried: Sequence[str]) -> str:
    """Return the beginning of the next command: the experiment, and flags of this run that `next_flags` does not set.

    Args:
        namespace: The arguments of this run.
        prog: The command.
        next_flags: Flags that follow.
        carried: Sections whose flags are repeated.
    """
    from retrievers.text.shown import redacted

    given = {} if namespace.config is DEFAULT else {"config": str(namespace.config)}
    files = {"refit": namespace.refit, "from-retrieval": namespace.from_retrieval}
    given |= {name: str(file) for name, file in files.items() if file}
    if namespace.refit and "--sweep." in next_flags:
        given["export"] = "refitted.yaml"  # else the trial would replace the retriever in use
    for name, raw in vars(namespace).items():
        is_carried = name.partition(".")[0] in carried
        if is_carried and isinstance(raw, str) and f"--{name.replace('_', '-')}" not in next_flags.split():
            given[name.replace("_", "-")] = redacted(raw)
    return " ".join((prog, *(f"--{name} {quote(raw)}" for name, raw in given.items())))


# Flags


def parser(prog: str = "python -m evals.run") -> argparse.ArgumentParser:
    """Return the parser of the command's flags: a few short ones, then one for every setting."""
    from evals.config.experiment import DatasetConfig, ExperimentConfig
    from evals.config.files import packaged
    from retrievers.config.files import user_path
    from retrievers.config.layers import add_flags
    from retrievers.terminal.command import Parser, add_logging_flags

    command = Parser(
        prog=prog,
        description="Run golden queries through a retriever, score what comes back, log it to MLflow.",
        usage=f"{prog} [--config FILE] [--SETTING VALUE ...]",
        add_help=False,
        epilog="Exit codes: 0 passed, 1 a criterion failed, 2 user error, 3 incomplete, "
        "130 interrupted, 143 terminated.",
    )
    command.add_argument("-h", "--help", action=_ShortHelp, help="show the flags that people use, and stop")
    command.add_argument("--help-all", action="help", help="show every flag, one for each setting, and stop")
    names = ", ".join(packaged())
    about = f"experiment file, or a packaged one by its name: {names} (default: default, but on data of your own none)"
    command.add_argument("--config", type=user_path, default=DEFAULT, metavar="FILE", help=about)
    for name, value in (("limit", "N"), ("ids", "A,B")):
        what = DatasetConfig.model_fields[name].description
        command.add_argument(f"--{name}", dest=f"dataset.{name}", default=argparse.SUPPRESS, metavar=value, help=what)
    for flag, about in FILES.items():
        command.add_argument(flag, type=user_path, metavar="FILE", help=about)
    for flag, about in SWITCHES.items():
        command.add_argument(flag, action="store_true", help=about)
    add_logging_flags(command)
    add_flags(command, ExperimentConfig)
    return command


class _ShortHelp(argparse._HelpAction):
    """Print the flags of USUAL and stop."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> None:
        """Hide the other flags. This harms nothing, since the command ends here."""
        for action in parser._actions:
            if set(action.option_strings).isdisjoint(USUAL):
                action.help = argparse.SUPPRESS
        super().__call__(parser, *arguments)


if __name__ == "__main__":
    start("evals.run:main")
