"""The default run in an environment full of keys and addresses: it uses none, and tells none."""

import base64
import json
from math import isclose
from pathlib import Path
from typing import Any

import pytest

from tests.support.child import Finished
from tests.support.recorder import SECRET

pytestmark = [pytest.mark.integration, pytest.mark.slow]
TIMED = ("time_ms", "stages_ms")


@pytest.fixture
def events(events_file: Path) -> list[list[str]]:
    found: list[list[str]] = json.loads(events_file.read_text())
    return found


def test_nothing_but_this_machine_is_connected_to(watched: Finished, events: list[list[str]]) -> None:
    assert (watched.code in (0, 1), watched.err) == (True, "")
    assert {path.name for path in watched.folder.iterdir()} == {"mlruns", "store", "log.jsonl"}
    assert [event for event in events if event[0] != "process"] == []


def test_no_process_is_started_but_those_that_ask_for_the_commit_and_the_machine(events: list[list[str]]) -> None:
    assert {event[1] for event in events if event[0] == "process"} <= {"git", "uname"}


def test_keys_and_settings_of_the_environment_change_no_score(watched: Finished, finished: Finished) -> None:
    ours, theirs = watched.report, finished.report
    assert ours["config"]["retriever"]["store"].pop("path") != theirs["config"]["retriever"]["store"].pop("path")
    assert ours["config"] == theirs["config"]
    # The engine adds up the weights of terms in an order of its own, so two indexings differ by about 1e-8.
    assert same([without_times(row) for row in ours["queries"]], [without_times(row) for row in theirs["queries"]])
    for name, metric in theirs["metrics"].items():
        if not name.startswith("latency/"):
            assert ours["metrics"][name] == metric
    for name in ("dataset_fingerprint", "collection", "embedding", "versions", "seed"):
        assert ours["facts"][name] == theirs["facts"][name]


def same(one: Any, other: Any) -> bool:
    """Return True for equal JSON values, numbers within 1e-6."""
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMED}


def test_no_secret_is_written_anywhere(watched: Finished) -> None:
    files = [path for path in watched.folder.rglob("*") if path.is_file()]
    assert {"mlflow.db", "report.json", "queries.json", "settings.yaml", "log.jsonl"} <= {path.name for path in files}
    encoded = base64.b64encode(f"me:{SECRET}-uri".encode())
    for name, data in [(str(path), path.read_bytes()) for path in files] + [
        ("stdout", watched.out.encode()),
        ("stderr", watched.err.encode()),
    ]:
        assert SECRET.encode() not in data, name
        assert encoded not in data, name
