"""The default run in an environment full of keys and addresses: it uses none, and tells none."""

import base64
import json
from typing import Any

import pytest

from tests.support import recorder
from tests.support.child import Finished, default_run

pytestmark = pytest.mark.integration
ELSEWHERE = "203.0.113.7"  # of a network that is reserved for examples
SECRET = "s3cr3t-marked"
ENVIRONMENT = {
    **{
        name: f"{SECRET}-{name.lower()}"
        for name in (
            "COHERE_API_KEY", "CO_API_KEY", "QDRANT_API_KEY", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DATABRICKS_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN",
        )
    },
    "QDRANT_URL": f"http://{ELSEWHERE}:6333",
    "CO_API_URL": f"http://{ELSEWHERE}/cohere",
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_TRACING_V2": "true",
    "LANGCHAIN_TRACING_V2": "true",
    "LANGSMITH_ENDPOINT": f"http://{ELSEWHERE}/langsmith",
    "MLFLOW_TRACKING_URI": f"http://me:{SECRET}-uri@{ELSEWHERE}:5000",
    "MLFLOW_REGISTRY_URI": f"http://{ELSEWHERE}:5000",
    "MLFLOW_EXPERIMENT_NAME": "another",
    "MLFLOW_EXPERIMENT_ID": "77",
    "MLFLOW_RUN_ID": "0123456789abcdef0123456789abcdef",
    "MLFLOW_DISABLE_TELEMETRY": "false",
    "RAGAS_DO_NOT_TRACK": "false",
    "DO_NOT_TRACK": "0",
    "HF_HUB_OFFLINE": "0",
    "HF_DATASETS_OFFLINE": "0",
    "HF_ENDPOINT": f"http://{ELSEWHERE}/hf",
    "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{ELSEWHERE}:4318",
    "RAG_DEFAULT_TOP_K": "50",
    "RAG_SIMILARITY_THRESHOLD": "0.9",
    "RAG_DEFAULT_COLLECTION": "theirs",
    "RAG_SEARCH_MODE": "hybrid",
}  # fmt: skip
TIMED = ("time_ms",)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The default run, with what it connected to and started in `events.json` beside its folder."""
    folder = tmp_path_factory.mktemp("watched") / "work"
    folder.mkdir()
    return default_run(folder, ["-P", recorder.__file__, folder.parent / "events.json"], ENVIRONMENT)


def events(watched: Finished) -> list[list[str]]:
    found: list[list[str]] = json.loads((watched.folder.parent / "events.json").read_text())
    return found


def test_nothing_but_this_machine_is_connected_to(watched: Finished) -> None:
    assert watched.code in (0, 1), watched.err
    assert [event for event in events(watched) if event[0] != "process"] == []


def test_no_process_is_started_but_those_that_ask_for_the_commit_and_the_machine(watched: Finished) -> None:
    assert {event[1] for event in events(watched) if event[0] == "process"} <= {"git", "uname"}


@pytest.mark.parametrize(
    ("event", "arguments", "recorded"),
    [
        ("socket.connect", (None, ("203.0.113.7", 443)), True),
        ("socket.connect", (None, ("2001:db8::1", 443, 0, 0)), True),
        ("socket.connect", (None, ("127.0.0.1", 80)), False),
        ("socket.connect", (None, ("::1", 80, 0, 0)), False),
        ("socket.connect", (None, "/run/some.socket"), False),
        ("socket.sendto", (None, ("203.0.113.7", 53)), True),
        ("socket.getaddrinfo", ("api.cohere.com", 443, 0, 0, 0), True),
        ("socket.getaddrinfo", (b"localhost", 80, 0, 0, 0), False),
        ("socket.gethostbyname", ("example.com",), True),
    ],
)
def test_the_recorder_sees_what_leaves_this_machine(event: str, arguments: tuple[Any, ...], recorded: bool) -> None:
    seen: list[list[str]] = []
    recorder._record(seen, event, arguments)
    assert bool(seen) == recorded


def test_the_run_is_logged_where_the_experiment_says_and_nowhere_else(watched: Finished) -> None:
    assert (watched.folder / "mlruns" / "mlflow.db").stat().st_size > 0
    assert watched.report["config"]["tracking"]["experiment"] == "retrieval-evals"
    assert watched.err == ""


def test_keys_and_settings_of_the_environment_change_no_score(watched: Finished, finished: Finished) -> None:
    ours, theirs = watched.report, finished.report
    assert ours["config"]["retriever"]["store"].pop("path") != theirs["config"]["retriever"]["store"].pop("path")
    assert ours["config"] == theirs["config"]
    assert [without_times(row) for row in ours["queries"]] == [without_times(row) for row in theirs["queries"]]
    for name, metric in theirs["metrics"].items():
        if not name.startswith("latency/"):
            assert ours["metrics"][name] == metric
    for name in ("dataset_fingerprint", "collection", "embedding", "versions", "seed"):
        assert ours["facts"][name] == theirs["facts"][name]


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMED}


def test_no_secret_is_written_anywhere(watched: Finished) -> None:
    files = [path for path in watched.folder.rglob("*") if path.is_file()]
    assert {"mlflow.db", "report.json", "queries.json", "experiment.yaml", "log.jsonl"} <= {path.name for path in files}
    encoded = base64.b64encode(f"me:{SECRET}-uri".encode())
    for name, data in [(str(path), path.read_bytes()) for path in files] + [
        ("stdout", watched.out.encode()),
        ("stderr", watched.err.encode()),
    ]:
        assert SECRET.encode() not in data, name
        assert encoded not in data, name


def test_nothing_is_written_beside_what_was_asked_for(watched: Finished) -> None:
    assert {path.name for path in watched.folder.iterdir()} == {"mlruns", "store", "log.jsonl"}
