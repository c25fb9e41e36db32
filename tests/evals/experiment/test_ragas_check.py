"""ragas' own classes on what a run shows: equal, or the run ends with 3 and says where they differ."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals import Outputs, evaluate
from evals.metrics import METRICS
from evals.metrics.declaration import QueryMetric
from evals.metrics.results import Values
from evals.run import main
from tests.support.chat_server import ChatServer, CohereChatServer
from tests.support.child import python
from tests.support.command import Done, call
from tests.support.experiment import Experiment, load_report, settings
from tests.support.judged_experiment import judge_flags, known_of, make_judged
from tests.support.judges import keys

OF_IDS = "ragas/id_context_precision"
WITHOUT_MODEL = ("ragas/id_*", "ragas/nonllm_*")
Run = Callable[..., Done]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_judged(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def server(made: Experiment) -> Iterator[ChatServer]:
    with CohereChatServer(known_of(settings(made))[2]) as running:
        yield running


@pytest.fixture
def run(made: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    flags = ["--config", made.config, "--output", "report.json", "--html", "page.html"]
    return lambda *arguments: call(main, [*flags, *arguments], capsys)


def check_of(folder: Path) -> Any:
    return load_report(folder / "report.json")["ragas_check"]


def test_metrics_without_a_model_are_scored_by_ragas_after_the_first_screen(run: Run, tmp_path: Path) -> None:
    done = run("--metrics", ",".join(WITHOUT_MODEL))
    check = check_of(tmp_path)
    assert (done.code, check["status"]) == (0, "equal")
    assert done.out.splitlines()[-2:] == ["ragas 0.4.3: equal (12 scores by its 4 classes)", "Page: page.html"]
    assert "ragas 0.4.3: equal" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_recommended_cell_of_a_grid_is_scored(run: Run, tmp_path: Path) -> None:
    flags = ("--metrics", ",".join(("ranking/*", *WITHOUT_MODEL)), "--sweep.top-k", "1,3")
    assert run(*flags).code == 0
    assert check_of(tmp_path)["status"] == "equal"


def test_the_report_is_saved_and_the_first_screen_shown_before_ragas_is_asked(made: Experiment, tmp_path: Path) -> None:
    file, seen = tmp_path / "report.json", list[Any]()
    config = settings(made, metrics=WITHOUT_MODEL)
    result = evaluate(
        experiment=config, outputs=Outputs(report=file), measured=lambda shown: seen.append((shown, load_report(file)))
    )
    [(shown, written)] = seen
    assert shown.report.ragas_check.status == written["ragas_check"]["status"] == "pending"
    assert result.report.ragas_check is not None and result.report.ragas_check.status == "equal"
    assert load_report(file) == written | {"ragas_check": check_of(tmp_path)}


@pytest.mark.slow
def test_nothing_is_written_into_the_home_folder(made: Experiment, tmp_path: Path) -> None:
    """Public methods of ragas' classes keep an id of the user there, even where they may send nothing."""
    home = tmp_path / "home"
    home.mkdir()
    flags = ["--config", made.config, "--metrics", "ragas/id_*,ragas/nonllm_*", "--output", tmp_path / "report.json"]
    done = python(["-m", "evals.run", *flags], tmp_path, {"HOME": str(home), "XDG_DATA_HOME": str(home / "data")})
    assert done.returncode == 0 and check_of(tmp_path)["status"] == "equal"
    assert list(home.iterdir()) == []


def test_a_run_without_a_metric_of_ragas_says_nothing_of_it(run: Run, tmp_path: Path) -> None:
    assert "ragas" not in run("--metrics", "ranking/*").out
    assert "ragas_check" not in load_report(tmp_path / "report.json")


def test_a_score_that_ragas_gives_otherwise_is_named_and_the_run_ends_with_3(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = METRICS[OF_IDS]
    assert isinstance(right, QueryMetric)
    wrong = replace(right, score=lambda r, c: Values.of(right.values(r, c).values * (1 - 1e-8)))
    monkeypatch.setitem(METRICS, OF_IDS, wrong)
    done, check = run("--metrics", OF_IDS), check_of(tmp_path)
    assert (done.code, check["status"]) == (3, "differs")
    assert "ragas 0.4.3 scores 3 of 3 otherwise: ragas/id_context_precision of forward is" in done.err
    assert all(f"{OF_IDS} of {name} is" in check["line"] for name in ("forward", "inverse", "channel"))


def test_an_error_of_ragas_loses_no_figure(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragas.dataset_schema.SingleTurnSample", None)
    done = run("--metrics", OF_IDS)
    assert (done.code, check_of(tmp_path)["status"]) == (0, "unchecked")
    assert "ragas 0.4.3 compared nothing: TypeError: " in done.out
    assert load_report(tmp_path / "report.json")["metrics"][OF_IDS]["n"] == 4


def test_judged_metrics_get_their_verdicts_from_the_store_and_ask_nothing(
    run: Run, tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in keys(server).items():
        monkeypatch.setenv(name, value)
    flags = [*judge_flags(server, tmp_path), "--metrics", "ragas/*"]
    done, check = run(*flags), check_of(tmp_path)
    calls = load_report(tmp_path / "report.json")["judge"]["usage"]["calls"]
    assert (done.code, check["status"], len(server.chats)) == (0, "equal", calls)
    assert len(check["metrics"]) == 8
    assert check["line"] == "ragas 0.4.3: equal (24 scores by its 8 classes)"
