"""`golden export ragas | beir | trec`: golden data as files of other tools."""

import argparse
import os
from typing import TYPE_CHECKING

from evals.config.files import check_writable, write
from evals.golden.commands import say
from evals.golden.commands.named_chunks import add_chunk_flags, named_chunks, named_settings
from evals.golden.json_lines import json_lines
from retrievers.config.layers import environment
from retrievers.terminal.command import Parser, add_logging_flags, path_argument

if TYPE_CHECKING:
    from evals.golden.loading import GoldenSet
    from retrievers.records import Chunk

ABOUT = {
    "ragas": ("a JSON Lines file of ragas' EvaluationDataset", "FILE"),
    "beir": ("a BEIR folder: queries.jsonl, qrels/*.tsv, corpus.jsonl", "DIR"),
    "trec": ("a folder with TREC's topics.xml and qrels.txt", "DIR"),
}


def add_files(formats: "argparse._SubParsersAction[Parser]") -> None:
    """Add the formats to the parser of `golden export`."""
    for name, (about, where) in ABOUT.items():
        command = formats.add_parser(name, help=about, description=f"Write {about}.")
        command.add_argument("file", type=path_argument, help="golden .jsonl file, or a folder of them")
        command.add_argument("-o", "--out", type=path_argument, required=True, metavar=where, help="where to write")
        command.add_argument("--force", action="store_true", help="replace files that exist")
        add_chunk_flags(command)
        add_logging_flags(command)
        command.set_defaults(run=_export)


def _export(namespace: argparse.Namespace) -> int:
    from evals.config.experiment import DatasetConfig
    from evals.errors import DatasetError
    from evals.golden.loading import load_golden

    golden = load_golden(DatasetConfig(path=namespace.file))
    env = environment(os.environ)
    config, is_named = named_settings(namespace, env)
    chunks = named_chunks(namespace, config, env) if is_named else None
    files = {
        namespace.out / name if name else namespace.out: text
        for name, text in _files(namespace.format, golden, chunks).items()
    }
    for file in files:
        if file.exists() and not namespace.force:
            raise DatasetError(f"{file}: exists already; name another place with --out, or replace it with --force")
    # All can be written before any is.
    for file in files:
        check_writable(file)
    for file, text in files.items():
        write(file, text)
    outside = sum(not case.in_scope for case in golden.cases)
    left_out = f", without {outside} out of scope" if namespace.format == "ragas" and outside else ""
    return say(namespace, [f"{namespace.out}: {len(golden.cases) - (outside if left_out else 0)} queries{left_out}"])


def _files(kind: str, golden: "GoldenSet", chunks: "list[Chunk] | None") -> dict[str, str]:
    """Return the files by name; the empty name is `--out` itself."""
    from evals.golden.evidence import resolve
    from evals.golden.exporters import beir_files, qrels_of, ragas_rows, trec_files

    relevance = None if chunks is None else resolve(golden.cases, chunks, golden.places)
    if kind == "ragas":
        return {"": json_lines(ragas_rows(golden.cases, relevance, chunks or ()))}
    qrels = qrels_of(golden.cases, relevance)
    return beir_files(golden.cases, qrels, chunks or ()) if kind == "beir" else trec_files(golden.cases, qrels)
