"""`golden import traces`: skeletons of the queries that a retriever was really asked, the most frequent first."""

import argparse

from evals.config.files import check_writable, write
from evals.golden.commands import NEAR, cosine_argument, next_of_unlabelled, say
from evals.golden.json_lines import json_lines
from retrievers.config import MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS, RetrieverConfig
from retrievers.terminal.command import Parser, add_logging_flags, path_argument, whole_number

MOST = 10_000
# Groups that are shown.
SHOWN = 5


def add_traces(formats: "argparse._SubParsersAction[Parser]") -> None:
    """Add the format to the parser of `golden import`."""
    about = "skeletons of the queries in MLflow's traces of a retriever, clustered, the most frequent first"
    command = formats.add_parser("traces", help=about, description=f"Write {about}.")
    command.add_argument("experiment", help="name of MLflow's experiment that has the traces")
    command.add_argument(
        "--tracking.uri",
        dest="uri",
        metavar="URI",
        help="MLflow on a SQL database; the one under ./mlruns when left out",
    )
    command.add_argument(
        "--most", type=whole_number(1), default=MOST, metavar="N", help=f"newest traces to read (default: {MOST})"
    )
    command.add_argument(
        "--near", type=cosine_argument, default=NEAR, metavar="COSINE",
        help=f"queries as alike are one, by the packaged embeddings (default: {NEAR})",
    )  # fmt: skip
    command.add_argument("-o", "--out", type=path_argument, required=True, metavar="FILE", help="golden file to write")
    add_logging_flags(command)
    command.set_defaults(run=_import)


def _import(namespace: argparse.Namespace) -> int:
    from evals.golden.query_clusters import clusters
    from evals.golden.synthesis.passages import embedder
    from evals.tracking import read_queries
    from retrievers.embedding.models import make_embeddings

    check_writable(namespace.out)
    queries = read_queries(namespace.experiment, namespace.uri, most=namespace.most)
    usable = [query for query in queries if _can_be_asked(query)]
    embed = embedder(make_embeddings(RetrieverConfig.model_validate({}).embedding, {}))
    groups = clusters(usable, embed, namespace.near)
    rows = [
        {"id": f"case-{number:03d}", "query": group[0], "tags": ["traced"]} for number, group in enumerate(groups, 1)
    ]
    write(namespace.out, json_lines(rows))
    too_long = [f"  {len(queries) - len(usable)} too long to be golden queries"] if len(usable) < len(queries) else []
    return say(
        namespace,
        [
            f"{namespace.out}: {len(rows)} skeletons of {len(queries)} traced queries, the most frequent first",
            *(f"  {len(group)} × {group[0]!r}" for group in groups[:SHOWN]),
            *too_long,
            next_of_unlabelled(len(rows), namespace.out),
        ],
    )


def _can_be_asked(query: str) -> bool:
    return len(query) <= MAX_QUERY_CHARACTERS and len(query.split()) <= MAX_QUERY_WORDS
