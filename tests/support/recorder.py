"""Runs `evals.run` while every connection out of this machine and every process it starts is written to a file.

python recorder.py FILE [arguments of evals.run]

Beside it the environment in which it is run: full of keys and addresses, none of which the default run may use or tell.
"""

import ipaddress
import json
import sys
from pathlib import Path
from typing import Any

LOOPBACK = ("localhost", "", None)
ADDRESSED = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
NAMED = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
STARTED = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")

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


def _is_local(host: Any) -> bool:
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _record(events: list[list[str]], event: str, arguments: tuple[Any, ...]) -> None:
    if event in ADDRESSED:
        address = arguments[ADDRESSED[event]]
        if isinstance(address, tuple) and not _is_local(address[0]):  # a Unix socket's is a path
            events.append([event, repr(address)])
    elif event in NAMED:
        host = arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0]
        if not _is_local(host):
            events.append([event, repr(host)])
    elif event in STARTED:
        events.append(["process", str(arguments[0])])


def main() -> int:
    """Record, run, write."""
    events: list[list[str]] = []
    watched = {*ADDRESSED, *NAMED, *STARTED}
    sys.addaudithook(lambda event, arguments: _record(events, event, arguments) if event in watched else None)
    from evals.run import main as run

    try:
        return run(sys.argv[2:])
    finally:
        Path(sys.argv[1]).write_text(json.dumps(events))


if __name__ == "__main__":
    sys.exit(main())
