"""Collecting, timing and repeating over a small embedded collection; and runs that start from a saved retrieval."""

import json
import random
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from syrupy.assertion import SnapshotAssertion

from evals import Experiment as Settings
from evals import Outputs, evaluate, sweep
from evals.cases.case import Case
from evals.collect.passes import WARMUP, collect, measure_latency, repeat
from evals.collect.saved import read
from evals.config.experiment import LatencyConfig
from evals.errors import ExperimentError
from evals.run import main
from retrievers import QdrantRetriever
from retrievers.config import EmbeddingConfig, RetrieverConfig
from retrievers.embedding.models import CheckedEmbeddings, make_embeddings
from retrievers.errors import ConfigError, EmbeddingError, ForeignRetrieverError, RetrievalError
from retrievers.retriever.opened import open_retriever
from retrievers.search.candidates import Candidates
from tests.support.command import Done, call
from tests.support.experiment import CASES, SETTINGS, Experiment, load_report, settings, silent
from tests.support.foreign import HERE
from tests.support.foreign import settings as settings_of_own
from tests.support.judged_experiment import make_judged
from tests.support.observed import make_case

QUERIES = ("forward kinematics of an arm", "joint angles for a pose", "named channel", "reliable publisher")
ASKED = [make_case(f"q{number}", query=query) for number, query in enumerate(QUERIES)]
BAD = make_case("bad", query="nowhere")


class Model(Embeddings):
    def __init__(self) -> None:
        self.inner = make_embeddings(EmbeddingConfig(), {})
        self.asked = 0

    def embed_query(self, text: str) -> list[float]:
        if text == BAD.query:
            raise TimeoutError("it does not answer")
        self.asked += 1
        return self.inner.embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def retriever(indexed: Experiment, model: Model) -> Iterator[QdrantRetriever]:
    config = settings(indexed, retriever__trust_embedding=True, retriever__threshold=0).retriever
    with QdrantRetriever.open(config, env={}, embeddings=CheckedEmbeddings(model, "model")) as opened:
        yield opened


def measure(retriever: QdrantRetriever, cases: list[Case] = ASKED, **settings: Any) -> Any:
    config = LatencyConfig.model_validate({"repeats": 1, "concurrency": (1,), **settings})
    return measure_latency(retriever, cases, config, silent)


def test_a_failure_keeps_its_type_and_names_the_cases_or_the_query_that_was_timed(retriever: QdrantRetriever) -> None:
    with pytest.raises(EmbeddingError, match=r"^cases 'q0' to 'bad': .*model failed to embed: TimeoutError"):
        collect(retriever, [*ASKED, BAD], silent)
    told, cases = list[Any](), [make_case(name, query=query) for name, query in (("fine", "arm"), ("bad", "a channel"))]
    with (
        open_retriever(settings_of_own("raises_in_the_middle"), env={}) as own,
        pytest.raises(ForeignRetrieverError, match=r"^case 'bad': python .* failed: ConnectionError, the index"),
    ):
        collect(own, [*cases, make_case("never", query="arm")], lambda *given: told.append(given))
    assert told == [("retrieving", 1, 3)]
    for levels in ((1,), (1, 4)):
        with pytest.raises(RetrievalError, match="query 'nowhere': model failed to embed"):
            measure(retriever, [*ASKED, BAD], concurrency=levels)


@pytest.mark.parametrize(("repeats", "levels"), [(1, (1,)), (2, (1, 4)), (3, (1, 2, 8))])
def test_every_call_is_a_search_of_its_own_after_warm_up_and_every_repetition_too(
    retriever: QdrantRetriever, model: Model, repeats: int, levels: tuple[int, ...]
) -> None:
    passes = measure(retriever, repeats=repeats, concurrency=levels)
    assert [len(calls) for calls in passes.values()] == [repeats * len(ASKED)] * len(levels)
    assert model.asked == WARMUP + repeats * len(ASKED) * len(levels)
    before, told = model.asked, list[Any]()
    found = repeat(retriever, ASKED, collect(retriever, ASKED, silent), lambda *given: told.append(given))
    assert found == [(case.id, False, 0.0) for case in ASKED for _ in range(2)]
    assert told == [("repeating", n, 4) for n in (1, 2, 3, 4)]
    assert model.asked == before + len(ASKED) * 3, "every repetition embeds anew"


def test_a_repetition_differs_by_a_chunk_its_place_and_a_score_beyond_rounding(retriever: QdrantRetriever) -> None:
    """Ours never differ in places, for the order is total: that is of a store. Several threads differ by 6e-8."""
    whole = collect(retriever, ASKED, silent)
    scores = whole.columns["score"]

    def moved(delta: float) -> Candidates:
        return replace(whole, columns={**whole.columns, "score": scores + delta})

    one_came = whole.at(np.tile([1, 2, 3, 4], (4, 1))), True, np.repeat(scores[:, 0], 2)
    two_swapped = whole.at(np.tile([1, 0, 2, 3, 4], (4, 1))), True, np.zeros(8)
    by_scores = ((moved(delta), abs(delta) > 1e-6, np.full(8, abs(delta))) for delta in (6e-8, -9e-7, 2e-6))
    for first, is_changed, deltas in (one_came, two_swapped, *by_scores):
        found = repeat(retriever, ASKED, first, silent)
        assert {call.changed for call in found} == {is_changed}
        assert [call.score_delta for call in found] == pytest.approx(deltas, rel=1e-3, abs=1e-9)


# Saved retrievals: the same figures without the store, or a refusal before any work

Run = Callable[..., Done]
BY_TEXT: list[dict[str, Any]] = [
    {"id": "arm", "query": "kinematics of an arm", "relevant_ids": ["an arm"]},
    {"id": "soup", "query": "onion soup", "in_scope": False},
]
ALL = ("--metrics", "ranking/*,candidates/*,scope/*,content/*,metadata/*,cost/*,determinism/*,latency/*")
SWEEP = ("--sweep.mode", "semantic,keyword,hybrid", "--sweep.top-k", "1:3", "--sweep.threshold", "0:0.4:0.2")


def pairs(query: str) -> list[tuple[Document, float]]:
    texts = {"an arm": 0.3 + 0.6 * ("arm" in query), "a leg": 0.2}
    return [(Document(id=text, page_content=text), score) for text, score in texts.items()]


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
    made = make_judged(tmp_path_factory.mktemp("saved"))
    file = made.folder / "kept"
    assert main([*map(str, flags_of(made)), "--save-retrieval", str(file)]) == 0
    shutil.rmtree(made.store)
    return file


@pytest.fixture
def start(saved: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    flags = [*flags_of(Experiment(saved.parent)), "--from-retrieval", saved]
    return lambda *arguments: call(main, [*flags, *arguments], capsys)


def figures(report: Mapping[str, Any]) -> Any:

    def kept(values: Mapping[str, Any]) -> dict[str, Any]:
        measured = ("latency/", "determinism/", "time_ms", "stages_ms")
        return {name: value for name, value in values.items() if not name.startswith(measured)}

    grid = report.get("grid") or {}
    cells = grid.get("cells"), kept(grid.get("metrics", {})), grid.get("choice")
    return kept(report["metrics"]), [*map(kept, report["queries"])], cells, report["facts"]["collection"]


def test_what_was_found_is_saved_before_judging(made: Experiment, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    file = made.folder / "early"
    with monkeypatch.context() as patched:
        patched.setattr("evals.experiment.flow.measure_pool", Mock(side_effect=KeyboardInterrupt))
        assert run("--save-retrieval", file).code == 130
    assert run("--from-retrieval", file).code == 0


@pytest.mark.parametrize("sweep", [(), SWEEP], ids=["run", "sweep"])
def test_the_figures_are_those_of_the_run_that_saved_it(made: Experiment, run: Run, sweep: tuple[str, ...]) -> None:
    first, other, file = made.folder / "first.json", made.folder / "other.json", made.folder / "kept"
    for _ in range(2):  # a file is replaced whole
        done = run(*ALL, *sweep, "--output", first, "--save-retrieval", file)
        assert (done.code, done.err, file.stat().st_mode & 0o777) == (0, "", 0o600)
    shutil.rmtree(made.store)
    done = run(*ALL, *sweep, "--output", other, "--from-retrieval", file)
    assert (done.code, done.err) == (0, "") and not made.store.exists()
    before, after = load_report(first), load_report(other)
    assert figures(after) == figures(before) and len(before["queries"]) == len(CASES)
    assert before["metrics"]["determinism/rate"]["value"] == 1
    for name in ("determinism/rate", "latency/total_p95_ms"):
        assert after["metrics"][name]["value"] is None
        assert after["metrics"][name]["note"] == "not measured: the run started from a saved retrieval"
    assert after["facts"]["saved_retrieval"].startswith("kept, saved at 20")
    assert after["facts"].get("collection_changed") is None


def test_a_retriever_of_the_users_own_is_saved_too(made: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    made.write_config({name: value for name, value in SETTINGS.items() if name not in ("retriever", "index")})
    file, reports = made.folder / "kept", [made.folder / "0.json", made.folder / "1.json"]
    for report, where in zip(reports, ("--save-retrieval", "--from-retrieval"), strict=True):
        flags = ["--config", made.config, "--quiet", "--retriever.python", f"{HERE}:plain"]
        done = call(main, [*flags, where, file, "--output", report], capsys)
        assert (done.code, done.err) == (0, "")
    before, after = map(load_report, reports)
    assert figures(after) == figures(before)
    assert (after["facts"]["retriever"], after["facts"]["collection"]) == (before["facts"]["retriever"], None)


def test_a_run_that_names_no_retriever_has_the_saved_one(tmp_path: Path) -> None:
    kept: Any = str(tmp_path / "kept")
    given = RetrieverConfig(candidates=20)
    grid: dict[str, Any] = {"top_k": "1:2", "threshold": "0:0.8:0.2", "metrics": ["ranking/*", "scope/*"]}
    first = sweep(pairs, BY_TEXT, experiment=Settings(retriever=given), outputs=Outputs(retrieval=kept), **grid)
    again = sweep(golden=BY_TEXT, from_retrieval=kept, **grid)
    assert again.cells.equals(first.cells) and again.recommended == first.recommended
    with pytest.raises(ExperimentError, match="only the saved retrieval names the retriever"):
        sweep(golden=BY_TEXT, from_retrieval=kept, outputs=Outputs(export=tmp_path / "retriever.yaml"), **grid)


ACTING = (
    {"python": "theirs:make"}, {"embedding.model": "python:theirs:make"},
    {"rerank": "cross-encoder", "cross_encoder.model": "python:theirs:make"},
    {"embedding.model": "openai:e5", "embedding.options": {"dimensions": 8}},
    {"embedding.model": "openai:e5", "embedding.base_url": "https://theirs.example"},
)  # fmt: skip


@pytest.mark.parametrize("theirs", [{}, *ACTING])
def test_a_saved_retrieval_brings_no_code_and_no_address_into_an_export(
    saved: Path, tmp_path: Path, theirs: dict[str, Any]
) -> None:
    table, golden, file = pq.read_table(saved), saved.with_name("golden.jsonl"), tmp_path / "theirs"
    origin = json.loads(table.schema.metadata[b"origin"])
    origin["variants"] = [variant | theirs for variant in origin["variants"]]
    metadata = {**table.schema.metadata, b"origin": json.dumps(origin).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), file)
    export = tmp_path / "retriever.yaml"
    if theirs:
        with pytest.raises(ExperimentError, match=r"only the saved retrieval names|expected (retriever\.|settings)"):
            evaluate(golden=golden, from_retrieval=file, outputs=Outputs(export=export))
    else:
        evaluate(golden=golden, from_retrieval=file, outputs=Outputs(export=export))
    assert export.exists() == (not theirs)


def test_no_threshold_is_held_against_a_retrieval_without_scores(tmp_path: Path) -> None:
    evaluate(lambda _: ["an arm"], BY_TEXT, outputs=Outputs(retrieval=tmp_path / "kept"))
    for cut in ({"retriever": {"threshold": 0.2}}, {"threshold": {"false_answer": 0.9}}):
        with pytest.raises(ExperimentError, match=r"expected scores to hold threshold 0.* against, got a retrieval"):
            evaluate(golden=BY_TEXT, experiment=Settings.model_validate(cut), from_retrieval=tmp_path / "kept")


OTHERWISE = (
    "--retriever.mode keyword", "--index.context none", "--retriever.rerank mmr", "--retriever.candidates 11",
    "--retriever.search-params '{hnsw_ef: 64}'", "--save-retrieval again",
)  # fmt: skip


def test_what_was_retrieved_otherwise_is_refused(start: Run, saved: Path, snapshot: SnapshotAssertion) -> None:
    done = {arguments: start(*shlex.split(arguments)) for arguments in OTHERWISE}
    assert {name: one.err.replace(str(saved), "FILE") for name, one in done.items()} == snapshot
    assert {one.code for one in done.values()} == {2}


def test_other_golden_data_are_refused(made: Experiment, run: Run, saved: Path, snapshot: SnapshotAssertion) -> None:
    first, *others = [json.loads(line) for line in made.golden.read_text(encoding="utf-8").splitlines()]
    shutil.rmtree(made.store)
    told = []
    for changes in ({"query": "zebras"}, {"reference_answer": "Otherwise."}, {"id": "new"}):
        made.write_golden([*others, {**first, **changes}])
        done = run("--from-retrieval", saved)
        told.append((done.code, done.err.replace(str(saved), "FILE")))
    assert told == snapshot
    # What only sorts a query changes nothing that was retrieved.
    made.write_golden([*others, {**first, "tags": ["new"], "query_type": "factual"}])
    assert run("--from-retrieval", saved).code == 0


def refusal(file: Path, start: Run) -> str:
    done = start("--from-retrieval", file)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert f"--from-retrieval {file}: expected a file that --save-retrieval wrote, found " in done.err
    return done.err


def test_a_damaged_file_is_refused(saved: Path, start: Run, tmp_path: Path) -> None:
    whole, file, rng = saved.read_bytes(), tmp_path / "damaged", random.Random(2)
    metadata = pq.read_metadata(saved)
    columns = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    begins = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    ends = [begin + column.total_compressed_size for begin, column in zip(begins, columns, strict=True)]
    contents = [whole[:end] for end in (*rng.sample(range(len(whole)), 8), 0, 4)]
    contents += [whole[: end - 1] + bytes([whole[end - 1] ^ 1 << rng.randrange(8)]) + whole[end:] for end in ends]
    for content in contents:
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"expected a file that --save-retrieval wrote, found .*; save it again"):
            read(file)
    assert "found one that is damaged" in refusal(file, start)
    file.write_bytes(b"a diary")
    assert "found something else" in refusal(file, start)
    pq.write_table(pa.table({"numbers": [1.5]}).replace_schema_metadata({"version": "9", "origin": "{}"}), file)
    assert "found one of version 9, not 7" in refusal(file, start)


def test_what_was_found_is_read_to_the_last_bit(made: Experiment, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    config = settings(made, sweep={"mode": ["keyword", "hybrid"], "top_k": [1, 3]}, metrics=["ranking/*"])
    pool, loaded = sweep(config, outputs=Outputs(retrieval=file)).result.results.lists.pool, read(file)
    got = loaded.pool(pool.cases, [0, 1])
    assert (got.cases, got.relevance, got.texts) == (pool.cases, pool.relevance, pool.texts)
    for before, after in zip(pool.tables, got.tables, strict=True):
        assert [*after.facts] == [*before.facts]
        for one, other in zip(after, before, strict=True):
            assert one.chunks == other.chunks
            for name in after.columns:
                assert one.column(name).tobytes() == other.column(name).tobytes()
    few = loaded.pool(pool.cases[3:0:-2], [1])
    assert [found.chunk_ids for found in few.tables[0]] == [pool.tables[1][row].chunk_ids for row in (3, 1)]


def test_of_many_queries_500_are_timed_and_repeated_over_all_of_the_golden_data() -> None:
    asked = list[str]()

    def plain(query: str) -> list[str]:
        asked.append(query)
        return [query]

    golden = [{"id": f"q{n}", "query": f"query {n}", "relevant_ids": ["x"]} for n in range(1203)]
    found = evaluate(plain, golden, metrics=["determinism/rate", "latency/total_p50_ms"], top_k=1)
    rate, p50 = found.report.metrics["determinism/rate"], found.report.metrics["latency/total_p50_ms"]
    assert (rate.value, rate.n, p50.n) == (1.0, 500, 1000)
    assert len(asked) == 1203 + WARMUP + 500 * (2 * 2 + 2), "once each, then 500: twice at 1 and 4 calls, again"
    again = [int(query.split()[1]) for query, calls in Counter(asked).items() if calls > 2]
    assert min(np.diff(sorted(again))) == 2 and max(np.diff(sorted(again))) == 3 and max(again) > 1198
