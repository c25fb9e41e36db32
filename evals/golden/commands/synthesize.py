"""`golden synthesize`: cases written and checked by a chat model, out of a collection or a folder of pages."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from evals.config.files import check_writable, write
from evals.config.folders import named_folders
from evals.config.judge import JudgeConfig
from evals.golden.commands import NEAR, Subcommands, cosine_argument, json_lines, say, validation
from evals.golden.synthesis.query_types import DEFAULT
from retrievers.config import RetrieverConfig, Settings
from retrievers.config.files import read_text
from retrievers.config.layers import Layer, add_flags, build, environment, environment_layer, file_layer, flag_layer
from retrievers.terminal.command import (
    EXIT_INCOMPLETE,
    add_logging_flags,
    path_argument,
    print_error,
    print_rendered,
    progress_bar,
    terminal_width,
    whole_number,
)

if TYPE_CHECKING:
    from evals.golden.synthesis.case_writing import Attempt
    from evals.golden.synthesis.passages import Passages
    from evals.golden.synthesis.sampling import Assignment
    from evals.judge.judge import Judge

MOST_BYTES = 1_000_000
REDRAWS = 3


class ModelSettings(Settings):
    """The chat model that writes and judges."""

    judge: JudgeConfig = Field(default_factory=lambda: JudgeConfig.model_validate({}), description="the chat model")


def add_synthesize(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    command = commands.add_parser(
        "synthesize",
        help="have golden data written",
        description="Have a chat model (--judge.model) write queries, answers and quotes to passages, and check them.",
    )
    command.add_argument(
        "--per-type", default=DEFAULT, metavar="TYPE=N,…", help=f"queries of each type (default: {DEFAULT})"
    )
    command.add_argument("--docs", type=path_argument, metavar="DIR", help="write to these pages, not to a collection")
    command.add_argument("--base-url", default="/docs", help="what addresses of --docs begin with (default: /docs)")
    command.add_argument("--language", default="", help="such as German (default: the passages' own)")
    command.add_argument(
        "--personas", type=path_argument, metavar="FILE", help="text file: on each line a person who asks"
    )
    command.add_argument(
        "--near", type=cosine_argument, default=NEAR, metavar="COSINE", help=f"repeats are as alike (default: {NEAR})"
    )
    command.add_argument(
        "--out", type=path_argument, default=Path("golden.jsonl"), metavar="FILE", help="default: golden.jsonl"
    )
    command.add_argument("--seed", type=whole_number(0), default=0, help="of the choice of passages (default: 0)")
    command.add_argument(
        "--redraws", type=whole_number(0), default=REDRAWS, metavar="N",
        help=f"dropped queries are replaced by ones to further passages up to N times (default: {REDRAWS})",
    )  # fmt: skip
    command.add_argument("--force", action="store_true", help="replace the file if it exists")
    command.add_argument("--plan", action="store_true", help="count calls, tokens and price, and stop")
    command.add_argument("--config", type=path_argument, metavar="FILE", help="experiment or retriever settings")
    add_flags(command, RetrieverConfig)
    add_flags(command, ModelSettings)
    add_logging_flags(command)
    command.set_defaults(run=_synthesize)


def _synthesize(namespace: argparse.Namespace) -> int:
    from evals.config.telemetry import silence
    from evals.errors import DatasetError
    from evals.golden.synthesis.passages import open_passages
    from evals.golden.synthesis.query_types import parse_counts
    from evals.golden.synthesis.sampling import assign
    from evals.judge.judge import Judge

    silence(hub=False)
    counts, personas = parse_counts(namespace.per_type), _personas(namespace.personas)
    if not namespace.plan:
        check_writable(namespace.out)
        if namespace.out.exists() and not namespace.force:
            raise DatasetError(
                f"{namespace.out}: exists already; name another file with --out, or replace it with --force"
            )
    env = environment(os.environ)
    retriever, model = _settings(namespace, env)
    if model.model is None:
        raise DatasetError(
            "golden synthesize needs a chat model that writes and judges: --judge.model, such as "
            "cohere:command-a-03-2025 (docs/judge.md lists the providers)"
        )
    with (
        progress_bar(shown=not namespace.quiet) as bar,
        open_passages(retriever, namespace.docs, namespace.base_url, env) as passages,
    ):
        judge = Judge.open(model, env)
        try:

            def draw(draws: Sequence[Mapping[str, int]]) -> "list[Assignment]":
                alike = lambda chunk: passages.alike(chunk, NEIGHBOURS)  # noqa: E731
                return assign(passages.chunks, draws, namespace.seed, personas, alike)

            if namespace.plan:
                return _plan(judge, passages, draw([counts]), namespace)
            from evals.golden.synthesis.synthesize import synthesize

            attempts = synthesize(
                judge, passages, draw, counts, language=namespace.language, near=namespace.near,
                redraws=namespace.redraws, progress=lambda done, total: bar("writing", done, total),
            )  # fmt: skip
        finally:
            judge.close()
    return _write(attempts, counts, judge, passages, namespace)


# Chunks nearest to a passage among which the second one of a comparison is looked for.
NEIGHBOURS = 20


def _settings(namespace: argparse.Namespace, env: Mapping[str, str]) -> tuple[RetrieverConfig, JudgeConfig]:
    retrievers, models = [environment_layer(env)], list[Layer]()
    if namespace.config:
        folders = named_folders(env)
        retrievers.append(file_layer(namespace.config, RetrieverConfig, folders))
        whole = file_layer(namespace.config, ModelSettings, folders)
        judge = {"judge": whole.values["judge"]} if "judge" in whole.values else {}
        models.append(Layer(label=whole.label, values=judge, lines=whole.lines))
    retriever = build(RetrieverConfig, [*retrievers, flag_layer(namespace, RetrieverConfig)])
    return retriever, build(ModelSettings, [*models, flag_layer(namespace, ModelSettings)]).judge


def _personas(file: Path | None) -> list[str]:
    from evals.errors import DatasetError

    if file is None:
        return []
    lines = read_text(file, "a text file of personas", MOST_BYTES, DatasetError).splitlines()
    personas = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not personas:
        raise DatasetError(f"{file}: expected a person who asks on each line, found none")
    return personas


def _plan(judge: "Judge", passages: "Passages", assignments: "list[Assignment]", namespace: argparse.Namespace) -> int:
    from evals.golden.synthesis.counting import count_calls
    from evals.report.plan import render_plan

    plan = count_calls(judge, passages, assignments, namespace.language)
    lines = [f"{len(assignments)} queries to {len(passages.chunks)} chunks of {passages.origin}"]
    if namespace.redraws:
        lines.append(
            "each query that is dropped costs about as much again, as another one is drawn (--redraws 0: none)"
        )
    print_rendered(render_plan([plan], lines, width=terminal_width(), color=False).rstrip())
    return 0


def _write(
    attempts: "list[Attempt]",
    counts: Mapping[str, int],
    judge: "Judge",
    passages: "Passages",
    namespace: argparse.Namespace,
) -> int:
    from evals.errors import DatasetError
    from evals.golden.synthesis.summary import summary, written_cases

    rows, unasked = written_cases(attempts), next((attempt.unasked for attempt in attempts if attempt.unasked), "")
    lines = summary(attempts, counts, namespace.redraws, judge.usage)
    out: Path = namespace.out.with_suffix(".partial.jsonl") if unasked else namespace.out
    if rows:
        write(out, json_lines(rows))
        says = f"{out}: {len(rows)} cases to {len(passages.chunks)} chunks of {passages.origin}"
        lines = [
            says,
            *lines,
            f"  read some of them before you trust them; then: {validation(out, namespace)}",
        ]
    say(namespace, lines)
    if unasked:
        where = f"{len(rows)} finished cases are in {out}; " if rows else ""
        print_error(f"incomplete: {unasked} ({where}the same command continues from here)")
        return EXIT_INCOMPLETE
    if not rows:
        raise DatasetError(f"{out}: not written: none of the {len(attempts)} queries passed its checks")
    return 0
