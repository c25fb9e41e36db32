import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import portalocker
import pytest
from mlflow.tracing.client import TracingClient

from evals import tracking
from evals.errors import TrackingError
from evals.tracking.__main__ import main
from evals.tracking.completing import complete
from evals.tracking.marks import being_logged, late_command, left_behind, marked
from evals.tracking.tracker import REPORT_TAG
from tests.support.results import report
from tests.support.tracking import artifact, client, config, start

IN_TESTS = ("--tracking.experiment", "tests")


@pytest.fixture
def kept(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The file of a report in the working directory's experiment, which no run in MLflow has."""
    run = f"kept {request.node.name}"
    settings = report().config | {"tracking": {"experiment": "tests"}}
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report().model_copy(update={"config": settings, "run": run}).plain()))
    yield file
    shutil.rmtree(tmp_path)


def traces_of(run_id: str) -> int:
    run = client().get_run(run_id)
    return len(client().search_traces(locations=[run.info.experiment_id], run_id=run_id))


def test_a_run_that_was_never_begun_is_written_whole_and_once(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(kept), *IN_TESTS]) == 0
    first = capsys.readouterr().out
    assert "was completed (make ui" in first
    run_id = first.split()[2]
    run = client().get_run(run_id)
    assert (run.info.status, run.data.params["retriever.mode"]) == ("FINISHED", "semantic")
    assert artifact(run, "report.json").read_text() == kept.read_text()
    assert "ranking/hit_rate_at_5" in run.data.metrics
    assert traces_of(run_id) == 3
    assert main([str(kept), *IN_TESTS]) == 0
    assert capsys.readouterr().out == first.replace("was completed", "is complete already; nothing was written")
    assert not left_behind(kept.parent)


def test_a_half_written_run_is_completed_without_a_second_row_or_trace(kept: Path) -> None:
    first = complete(kept, config())
    client().set_terminated(first.run_id, "FAILED")
    before = client().get_metric_history(first.run_id, "ranking/hit_rate_at_5")
    again = complete(kept, config())
    assert (again.run_id, again.written) == (first.run_id, True)
    assert traces_of(first.run_id) == 3
    assert len(json.loads(artifact(client().get_run(first.run_id), "queries.json").read_text())["data"]) == 3
    assert client().get_metric_history(first.run_id, "ranking/hit_rate_at_5") == before


def test_a_run_that_only_began_is_found_by_its_id_or_by_its_report(kept: Path) -> None:
    begun = start("another name")
    with being_logged(kept, begun.run_id):
        pass
    assert complete(kept, config()).run_id == begun.run_id
    kept.write_text(kept.read_text() + "\n")
    of_report = tracking.start(config(), "any", {}, digest=hashlib.sha256(kept.read_bytes()).hexdigest())
    assert complete(kept, config()).run_id == of_report.run_id


def test_a_run_of_an_earlier_version_is_found_by_its_name_and_one_in_progress_is_not(kept: Path) -> None:
    name = json.loads(kept.read_text())["run"]
    former = start(name)
    client().delete_tag(former.run_id, REPORT_TAG)
    in_progress = start(name)
    assert complete(kept, config()).run_id == former.run_id
    assert client().get_run(in_progress.run_id).data.metrics == {}


@pytest.mark.parametrize("failing", ["start_trace", "log_spans"])
def test_traces_that_failed_are_written_later_and_the_others_stay(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failing: str
) -> None:
    """Without its spans a trace is there, with nothing in it."""
    works, calls = getattr(TracingClient, failing), []

    def refused_once(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise ValueError("refused once")
        return works(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(TracingClient, failing, refused_once)
        patch.setattr("evals.tracking.traces.WORKERS", 1)
        assert main([str(kept), *IN_TESTS]) == 3
    said = capsys.readouterr().err
    assert f"but not all traces of its queries (the report is kept at {kept})" in said and not left_behind(kept.parent)
    run_id = re.findall("[0-9a-f]{32}", said)[-1]
    run = client().get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["traces.missing"] == ("1" if failing == "start_trace" else "3")
    assert complete(kept, config()).written
    assert "traces.missing" not in client().get_run(run_id).data.tags
    found = client().search_traces(locations=[run.info.experiment_id], run_id=run_id)
    assert sorted(trace.info.client_request_id for trace in found) == ["empty", "right", "wrong"]
    assert all(trace.data.spans for trace in found)
    assert not complete(kept, config()).written


def test_two_at_once_do_not_both_complete_it(kept: Path) -> None:
    with marked(kept), pytest.raises(TrackingError, match="another process writes its run"):
        complete(kept, config())


def test_a_run_in_progress_is_left_to_its_process_without_a_word(kept: Path) -> None:
    """The lock is there before the mark can be seen, and until it is removed."""
    with being_logged(kept) as mark:
        assert left_behind(kept.parent) == []
        mark.remove()
        assert left_behind(kept.parent) == []
    assert [file.name for file in kept.parent.iterdir()] == [kept.name]


def test_a_mark_never_stands_unlocked_while_its_process_lives(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run ends in the moment in which the mark is made: it finds none."""
    others: list[list[Path]] = []
    lock = portalocker.lock

    def overtaken(*arguments: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(portalocker, "lock", lock)
            others.append(left_behind(kept.parent))
        lock(*arguments)

    monkeypatch.setattr(portalocker, "lock", overtaken)
    with being_logged(kept) as mark:
        mark.remove()
    assert others == [[]] and not left_behind(kept.parent)


def test_a_mark_that_a_later_run_has_put_in_place_stays(kept: Path) -> None:
    with marked(kept) as former:
        with being_logged(kept, "later"):
            assert former
            former.remove()
        with marked(kept) as left:
            assert left and left.run_id == "later"


def test_a_run_that_was_left_is_named(kept: Path) -> None:
    with marked(kept):
        assert left_behind(kept.parent) == []
    assert left_behind(kept.parent) == [kept]
    os.mkfifo(kept.with_name(".pipe.json.untracked"))
    kept.with_name(".gone.json.untracked").touch()
    assert left_behind(kept.parent) == [kept]


def test_the_command_names_what_is_not_the_default() -> None:
    settings = config(uri="http://me:secret-42@host")
    assert late_command(Path("a b.json"), settings) == (
        "python -m evals.tracking 'a b.json' --tracking.uri 'http://***@host' --tracking.experiment tests"
    )
    assert late_command(Path("r.json")) == "python -m evals.tracking r.json"


def test_a_server_that_does_not_answer_keeps_report_and_mark(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(kept), *IN_TESTS, "--tracking.uri", "http://127.0.0.1:9"]) == 3
    assert f"(the report is kept at {kept})" in capsys.readouterr().err
    assert left_behind(kept.parent) == [kept]


def test_a_report_whose_address_lacks_its_password(kept: Path) -> None:
    with pytest.raises(TrackingError, match=r"http://\*\*\*@host: holds no credentials"):
        complete(kept, config(uri="http://***@host"))
