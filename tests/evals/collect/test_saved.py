"""A run that starts from a saved retrieval: the same figures without the store, or a refusal before any work."""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evals import Outputs, sweep
from evals.cases.reading import load_golden
from evals.collect.saved import read, write
from evals.run import main
from retrievers.errors import ConfigError
from retrievers.search.candidates import BY_QUERY
from tests.support.chat_server import CohereChatServer
from tests.support.command import Done, call
from tests.support.experiment import CASES, FORWARD, SETTINGS, Experiment, load_report, settings
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
    file = made.folder / "kept"
    assert main([*map(str, flags_of(made)), "--save-retrieval", str(file)]) == 0
    shutil.rmtree(made.store)
    return file


@pytest.fixture
def start(saved: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """A run that starts from the saved retrieval."""
    flags = [*flags_of(Experiment(saved.parent)), "--from-retrieval", saved]
    return lambda *arguments: call(main, [*flags, *arguments], capsys)


def figures(report: Mapping[str, Any]) -> Any:
    """Return metrics, rows and cells, without what only searches can measure."""

    def measured(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if not name.startswith(("latency/", "determinism/"))}

    rows = [
        {name: value for name, value in row.items() if name not in ("time_ms", "stages_ms")}
        for row in report["queries"]
    ]
    grid = report.get("grid") or {}
    cells = grid.get("cells"), measured(grid.get("metrics", {})), grid.get("choice")
    return measured(report["metrics"]), rows, cells, report["facts"]["collection"]


@pytest.mark.parametrize("sweep", [(), SWEEP], ids=["run", "sweep"])
def test_the_figures_are_those_of_the_run_that_saved_it(made: Experiment, run: Run, sweep: tuple[str, ...]) -> None:
    first, other, file = made.folder / "first.json", made.folder / "other.json", made.folder / "kept"
    done = run(*ALL, *sweep, "--output", first, "--save-retrieval", file)
    assert (done.code, done.err) == (0, "")
    shutil.rmtree(made.store)
    done = run(*ALL, *sweep, "--output", other, "--from-retrieval", file)
    assert (done.code, done.err) == (0, "")
    before, after = load_report(first), load_report(other)
    assert figures(after) == figures(before) and len(before["queries"]) == len(CASES)
    assert before["metrics"]["determinism/rate"]["value"] == 1
    for name in ("determinism/rate", "latency/total_p95_ms", "latency/drift"):
        assert after["metrics"][name]["value"] is None
        assert after["metrics"][name]["note"] == "not measured: the run started from a saved retrieval"
    assert after["facts"]["saved_retrieval"].startswith("kept, saved at 20")
    assert after["facts"].get("collection_changed") is None
    assert not made.store.exists()


def test_a_retriever_of_the_users_own_is_saved_too(made: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    """Its chunks cannot be listed, and its factory is not called again."""
    made.write_config({name: value for name, value in SETTINGS.items() if name not in ("retriever", "index")})
    file, reports = made.folder / "kept", [made.folder / "0.json", made.folder / "1.json"]
    for report, where in zip(reports, ("--save-retrieval", "--from-retrieval"), strict=True):
        flags = ["--config", made.config, "--quiet", "--retriever.python", f"{HERE}:plain"]
        done = call(main, [*flags, where, file, "--output", report], capsys)
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
        (["--index.context", "none"], "expected index.context 'path' of the collection that was searched, got 'none'"),
        (
            ["--index.collection", "another", "--index.context", "none"],
            "was indexed with index.context 'path', but index.context 'none' is expected",
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


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"query": "zebras"}, "expected case 'forward' as it was saved, got another query, other labels or"),
        ({"evidence": [{"source_url": "/docs/arms/kinematics", "quote": FORWARD}]}, "expected case 'forward'"),
        ({"reference_answer": "Otherwise."}, "expected case 'forward' as it was saved, got another"),
        ({"id": "new"}, "expected case 'new' as it was saved, got a new case; save it again with --save-retrieval"),
    ],
)
def test_other_golden_data_are_refused(
    made: Experiment, run: Run, saved: Path, changes: dict[str, Any], expected: str
) -> None:
    first, *others = [json.loads(line) for line in made.golden.read_text(encoding="utf-8").splitlines()]
    shutil.rmtree(made.store)
    made.write_golden([*others, {**first, **changes}])
    done = run("--from-retrieval", saved)
    assert (done.code, done.err.count("\n"), expected in done.err) == (2, 1, True), done.err
    # What only sorts a query changes nothing that was retrieved.
    made.write_golden([*others, {**first, "tags": ["new"], "query_type": "factual"}])
    assert run("--from-retrieval", saved).code == 0


def test_other_pages_are_refused(run: Run, made: Experiment, saved: Path) -> None:
    shutil.rmtree(made.store)
    made.write_pages({"ros/topics.md": "# Topics\n\nAnother text.\n"})
    done = run("--from-retrieval", saved)
    assert (done.code, "expected pages_fingerprint" in done.err) == (2, True), done.err


def test_the_plan_needs_no_store_either(start: Run) -> None:
    done = start("--plan")
    assert (done.code, done.err) == (0, "")
    assert "none: all candidates are in the saved retrieval 'kept'" in done.out


def test_a_folder_is_refused_before_the_work(run: Run, made: Experiment, saved: Path) -> None:
    """Earlier releases wrote one."""
    folder, report = made.folder / "old", made.folder / "report.json"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    done = run("--save-retrieval", folder, "--output", report)
    assert (done.code, "expected a file to write, found a folder" in done.err) == (2, True)
    done = run("--from-retrieval", folder, "--output", report)
    assert (done.code, done.err.count("\n"), report.exists()) == (2, 1, False)
    assert "found a folder, as earlier releases wrote it; save it again" in done.err


def refusal(file: Path, start: Run) -> str:
    """Return the one line that refuses a file."""
    done = start("--from-retrieval", file)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert f"--from-retrieval {file}: expected a file that --save-retrieval wrote, found " in done.err
    return done.err


def test_a_damaged_file_is_refused(saved: Path, start: Run, tmp_path: Path) -> None:
    """Whichever bit of it changed, and wherever it ends early."""
    whole, file, rng = saved.read_bytes(), tmp_path / "damaged", random.Random(2)
    for place in (*rng.sample(range(len(whole)), 18), 0, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.randrange(8)
        file.write_bytes(flipped)
        with pytest.raises(ConfigError, match=r"expected a file that --save-retrieval wrote, found .*; save it again"):
            read(file)
    assert "found one that is damaged" in refusal(_with(file, whole[:4] + b"x" + whole[5:]), start)
    for end in (*rng.sample(range(len(whole)), 8), 0, 4):
        with pytest.raises(ConfigError, match="save it again"):
            read(_with(file, whole[:end]))


def test_what_is_no_saved_retrieval_is_refused(start: Run, tmp_path: Path) -> None:
    file = tmp_path / "other"
    assert "found No such file or directory; save it again" in refusal(file, start)
    assert "found something else" in refusal(_with(file, b"a diary"), start)
    table = pa.table({"numbers": [1.5]})
    pq.write_table(table, file)
    assert "found something else" in refusal(file, start)
    pq.write_table(table.replace_schema_metadata({"version": "9", "sha256": "0", "origin": "{}"}), file)
    assert "found one of version 9, not 2" in refusal(file, start)


def _with(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def test_a_file_is_replaced_whole_or_not_at_all(made: Experiment, run: Run) -> None:
    file = made.folder / "kept"
    for _ in range(2):
        assert run("--save-retrieval", file).code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()
    names = {path.name for path in made.folder.iterdir()}
    killed = (
        "import os, signal, sys; from pathlib import Path; from evals.run import main; whole = Path.write_bytes\n"
        "def half(self, data): whole(self, data[:len(data) // 2]); os.kill(os.getpid(), signal.SIGKILL)\n"
        "Path.write_bytes = half; main(sys.argv[1:])"
    )
    flags = [*flags_of(made), "--save-retrieval", file]
    ended = subprocess.run([sys.executable, "-c", killed, *map(str, flags)], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert file.read_bytes() == before
    (part,) = (path for path in made.folder.iterdir() if path.name not in names)
    assert part.name.endswith(".part") and part.stat().st_mode & 0o777 == 0o600


def test_what_was_found_is_read_to_the_last_bit(made: Experiment, tmp_path: Path) -> None:
    """Of two variants with other components, among them one without vectors."""
    file = tmp_path / "kept"
    config = settings(made, sweep={"mode": ["keyword", "hybrid"], "top_k": [1, 3]}, metrics=["ranking/*"])
    result = sweep(config, outputs=Outputs(retrieval=file)).result
    pool, loaded = result.results.lists.pool, read(file)
    got = loaded.pool(pool.cases, [0, 1])
    assert (got.cases, got.relevance, got.texts) == (pool.cases, pool.relevance, pool.texts)
    for before, after in zip(pool.tables, got.tables, strict=True):
        assert after.offsets.tolist() == before.offsets.tolist()
        assert [each.chunks for each in after] == [each.chunks for each in before]
        for name in ("score", *after.columns):
            assert after.column(name).tobytes() == before.column(name).tobytes()
        for name in {*BY_QUERY} - {"vectors"}:
            assert [*getattr(after, name)] == [*getattr(before, name)]
        for one, other in zip(after.vectors, before.vectors, strict=True):
            assert (None if one is None else one.tobytes()) == (None if other is None else other.tobytes())
    few = loaded.only([(1, 2)]).pool(pool.cases[3:0:-2], [0])
    assert [found.chunk_ids for found in few.tables[0]] == [pool.tables[1][row].chunk_ids[:2] for row in (3, 1)]


def test_a_setting_that_came_later_is_as_if_it_had_been_left_out(start: Run, saved: Path, tmp_path: Path) -> None:
    loaded, file = read(saved), tmp_path / "older"
    (searched,) = loaded.origin.variants
    assert searched.settings.pop("search_params") is None
    write(file, [loaded.pool(load_golden(settings(Experiment(saved.parent)).dataset).cases, [0])], loaded.origin)
    done = start("--from-retrieval", file)
    assert (done.code, done.err) == (0, "")
    refused = start("--from-retrieval", file, "--retriever.search-params", "{hnsw_ef: 64}")
    assert (refused.code, "expected retriever.search_params None" in refused.err) == (2, True), refused.err


def test_a_grid_with_held_out_queries_starts_from_a_file(made: Experiment, run: Run) -> None:
    cases = [json.loads(line) for line in made.golden.read_text(encoding="utf-8").splitlines()]
    splits = [{**case, "split": name, "id": f"{name} {case['id']}"} for case in cases for name in ("dev", "test")]
    made.write_golden(splits)
    reports, file = [made.folder / "0.json", made.folder / "1.json"], made.folder / "kept"
    flags = [*SWEEP, "--dataset.split", "dev", "--metrics", "ranking/*"]
    for report, where in zip(reports, ("--save-retrieval", "--from-retrieval"), strict=True):
        done = run(*flags, where, file, "--output", report)
        assert (done.code, done.err) == (0, "")
        shutil.rmtree(made.store, ignore_errors=True)
    before, after = map(load_report, reports)
    assert figures(after) == figures(before)
    assert after["grid"]["held_out"]["n"] == 6  # both sides are in the objective
    saved_at = after["facts"]["saved_retrieval"].removeprefix("kept, saved at ")
    assert [note for note in after["notes"] if note not in before["notes"]] == [
        f"started from the retrieval 'kept', saved on {saved_at}: nothing was searched"
    ]
    assert before["facts"]["dataset_fingerprint"] == after["facts"]["dataset_fingerprint"]
    made.write_golden([{**case, "query": "else"} if case["id"] == "test soup" else case for case in splits])
    done = run(*flags, "--from-retrieval", file)
    assert (done.code, "expected case 'test soup' as it was saved" in done.err) == (2, True), done.err


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
