"""A run that starts from a saved retrieval: the same figures without the store, or a refusal before any work."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.run import main
from tests.support.chat_server import CohereChatServer
from tests.support.command import Done, call
from tests.support.experiment import CASES, SETTINGS, Experiment, load_report, settings
from tests.support.foreign import HERE
from tests.support.judged_experiment import JUDGED_METRICS, judge_flags, known_of, make_judged
from tests.support.judges import keys

Run = Callable[..., Done]
ALL = ("--metrics", "ranking/*,candidates/*,scope/*,content/*,metadata/*,cost/*,determinism/*,latency/*")
SWEEP = ("--sweep.mode", "semantic,keyword,hybrid", "--sweep.top-k", "1:3", "--sweep.threshold", "0:0.4:0.2")


def flags_of(made: Experiment) -> list[str | Path]:
    return ["--config", made.config, "--quiet", "--no-gate", "--metrics", "ranking/*,scope/*"]


@pytest.fixture
def made(tmp_path: Path) -> Experiment:
    return make_judged(tmp_path / "work")


@pytest.fixture
def run(made: Experiment, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: call(main, [*flags_of(made), *arguments], capsys)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved semantic retrieval, whose store is gone; tests leave its experiment as it is."""
    made = make_judged(tmp_path_factory.mktemp("saved"))
    folder = made.folder / "kept"
    assert main([*map(str, flags_of(made)), "--save-retrieval", str(folder)]) == 0
    shutil.rmtree(made.store)
    return folder


@pytest.fixture
def start(saved: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """A run that starts from the saved retrieval."""
    flags = [*flags_of(Experiment(saved.parent)), "--from-retrieval", saved]
    return lambda *arguments: call(main, [*flags, *arguments], capsys)


def figures(report: Mapping[str, Any]) -> Any:
    """Return metrics, rows and cells, without what only searches can measure."""

    def measured(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if not name.startswith(("latency/", "determinism/"))}

    rows = [{name: value for name, value in row.items() if name != "time_ms"} for row in report["queries"]]
    grid = report.get("grid") or {}
    cells = grid.get("cells"), measured(grid.get("metrics", {})), grid.get("choice")
    return measured(report["metrics"]), rows, cells, report["facts"]["collection"]


@pytest.mark.parametrize("sweep", [(), SWEEP], ids=["run", "sweep"])
def test_the_figures_are_those_of_the_run_that_saved_it(made: Experiment, run: Run, sweep: tuple[str, ...]) -> None:
    first, other, folder = made.folder / "first.json", made.folder / "other.json", made.folder / "kept"
    done = run(*ALL, *sweep, "--output", first, "--save-retrieval", folder)
    assert (done.code, done.err) == (0, "")
    shutil.rmtree(made.store)
    done = run(*ALL, *sweep, "--output", other, "--from-retrieval", folder)
    assert (done.code, done.err) == (0, "")
    before, after = load_report(first), load_report(other)
    assert figures(after) == figures(before) and len(before["queries"]) == len(CASES)
    assert before["metrics"]["determinism/rate"]["value"] == 1
    for name in ("determinism/rate", "latency/total_p95_ms", "latency/drift"):
        assert after["metrics"][name]["value"] is None
        assert after["metrics"][name]["note"] == "not measured: the run started from a saved retrieval"
    assert after["facts"]["saved_retrieval"]["folder"] == "kept"
    assert after["facts"].get("collection_changed") is None
    assert not made.store.exists()


def test_a_retriever_of_the_users_own_is_saved_too(made: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    """Its chunks cannot be listed, and its factory is not called again."""
    made.write_config({name: value for name, value in SETTINGS.items() if name not in ("retriever", "index")})
    folder, reports = made.folder / "kept", [made.folder / "0.json", made.folder / "1.json"]
    for report, where in zip(reports, ("--save-retrieval", "--from-retrieval"), strict=True):
        flags = ["--config", made.config, "--quiet", "--retriever.python", f"{HERE}:plain"]
        done = call(main, [*flags, where, folder, "--output", report], capsys)
        assert (done.code, done.err) == (0, "")
    before, after = map(load_report, reports)
    assert figures(after) == figures(before)
    assert (after["facts"]["retriever"], after["facts"]["relevance"]) == (before["facts"]["retriever"], "returned")


def test_cut_and_metrics_may_differ(start: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = start("--retriever.top-k", "1", "--retriever.threshold", "0", "--output", report)
    assert (done.code, done.err) == (0, "")
    assert {len(row["retrieved"]) for row in load_report(report)["queries"]} == {1}
    swept = start("--sweep.top-k", "1:3", "--retriever.candidates", "5", "--ids", "forward")
    assert (swept.code, swept.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retriever.mode", "keyword"], "expected retriever.mode 'semantic', with which it was saved, got 'keyword'"),
        (
            ["--sweep.mode", "semantic,hybrid"],
            "expected retriever.mode 'semantic', with which it was saved, got 'hybrid'",
        ),
        (["--index.context", "path"], "expected index.context 'none' of the collection that was searched, got 'path'"),
        (
            ["--index.collection", "another", "--index.context", "path"],
            "was indexed with index.context 'none', but 'path' is expected",
        ),
        (["--retriever.rerank", "mmr"], "expected retriever.rerank 'none', with which it was saved, got 'mmr'"),
        (
            ["--retriever.candidates", "11"],
            "expected retriever.candidates: at most the depth that was saved, 10, got 11",
        ),
        (
            ["--retriever.collection", "dogs"],
            "expected retriever.collection 'robots', with which it was saved, got 'dogs'",
        ),
        (
            ["--retriever.search-params", "{hnsw_ef: 64}"],
            "expected retriever.search_params None, with which it was saved, got {'hnsw_ef': 64}",
        ),
        (["--retriever.embedding.model", "l2_supercat_128"], "expected retriever.embedding.model"),
        (["--sweep.top-k", "1:3", "--objective.constraints", "latency/total_p95_ms <= 5"], "needs searches"),
        (["--save-retrieval", "again"], "not allowed with argument"),
    ],
)
def test_what_was_retrieved_otherwise_is_refused(start: Run, arguments: list[str], message: str) -> None:
    done = start(*arguments)
    assert (done.code, message in " ".join(done.err.split())) == (2, True), done.err


def test_other_queries_evidence_and_pages_are_refused(run: Run, made: Experiment, saved: Path) -> None:
    first, *others = CASES
    shutil.rmtree(made.store)
    made.write_golden([{**first, "query": "zebras"}, *others])
    done = run("--from-retrieval", saved)
    assert (done.code, "for case 'forward' the query" in done.err, "got 'zebras'" in done.err) == (2, True, True)
    made.write_golden([{**first, "evidence": [{"source_url": "/docs/new", "quote": "A new page."}]}, *others])
    done = run("--from-retrieval", saved)
    assert (done.code, "source_url '/docs/new' is named as relevant" in done.err) == (2, True), done.err
    made.write_golden(CASES)
    made.write_pages({"ros/topics.md": "# Topics\n\nAnother text.\n"})
    done = run("--from-retrieval", saved)
    assert (done.code, "expected pages_fingerprint" in done.err) == (2, True), done.err


def test_the_plan_needs_no_store_either(start: Run) -> None:
    done = start("--plan")
    assert (done.code, done.err) == (0, "")
    assert "none: all candidates are in the saved retrieval 'kept'" in done.out


def test_a_folder_with_other_files_is_refused_before_the_work(run: Run, made: Experiment) -> None:
    report = made.folder / "report.json"
    done = run("--save-retrieval", made.folder, "--output", report)
    assert (done.code, "name another" in done.err, report.exists()) == (2, True, False)


@pytest.fixture
def server(made: Experiment, monkeypatch: pytest.MonkeyPatch) -> Iterator[CohereChatServer]:
    _, _, oracle = known_of(settings(made))
    with CohereChatServer(oracle) as running:
        for name, value in keys(running).items():
            monkeypatch.setenv(name, value)
        yield running


def test_a_judge_is_asked_the_same(server: CohereChatServer, made: Experiment, run: Run) -> None:
    """The first judged run has the store; the other one starts from what the first saved, with no verdict kept."""
    asked, saved = [], made.folder / "kept"
    for number, where in enumerate([("--save-retrieval", saved), ("--from-retrieval", saved)]):
        before = len(server.chats)
        flags = [*judge_flags(server, made.folder / str(number)), "--metrics", ",".join(JUDGED_METRICS)]
        done = run(*flags, *where, "--output", made.folder / f"{number}.json")
        assert (done.code, done.err) == (0, "")
        asked.append(sorted(str(chat) for chat in server.chats[before:]))
        shutil.rmtree(made.store, ignore_errors=True)
    assert asked[0] and asked[0] == asked[1]
    assert figures(load_report(made.folder / "1.json")) == figures(load_report(made.folder / "0.json"))


def test_search_parameters_that_are_unset_are_as_in_a_retrieval_older_than_the_setting(
    start: Run, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = saved / "manifest.json"
    written = manifest.read_text(encoding="utf-8")
    older = json.loads(written)
    for variant in older["variants"]:
        assert variant["settings"].pop("search_params") is None
    manifest.write_text(json.dumps(older), encoding="utf-8")
    try:
        done = start()
        assert (done.code, done.err) == (0, "")
        refused = start("--retriever.search-params", "{hnsw_ef: 64}")
        assert (refused.code, "expected retriever.search_params None" in refused.err) == (2, True), refused.err
    finally:
        manifest.write_text(written, encoding="utf-8")
