"""The public functions, called as a script or a notebook would, and what these show of a result."""

import asyncio
import builtins
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import closing
from contextvars import ContextVar
from html import unescape
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from signal import SIGINT, default_int_handler, pthread_kill, signal
from threading import main_thread
from traceback import format_exception
from typing import Any
from warnings import catch_warnings

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset, DatasetDict
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

import evals
import retrievers
from evals import Evaluation, Experiment, Outputs, compare_runs, evaluate, sweep
from evals.cases.reading import golden_set
from evals.compare import main as compare
from evals.errors import DatasetError, ExperimentError, ReportError
from evals.run import main
from retrievers import QdrantRetriever
from retrievers.errors import ConfigError, ForeignRetrieverError
from tests.support import foreign
from tests.support.command import call
from tests.support.experiment import CASES, FORWARD, TOPIC, index_once, joined, load_report, make_experiment
from tests.support.experiment import Experiment as OnDisk

TEXTS = [FORWARD, TOPIC, "An onion soup with cheese."]
ROWS: list[dict[str, Any]] = [
    {"query": "forward kinematics", "evidence": [{"quote": FORWARD}]},
    {"query": "named channel", "evidence": [{"quote": TOPIC}], "query_type": "factual"},
    {"query": "zebra", "in_scope": False},
]
TENANT = ContextVar[str]("TENANT")
CHEAP = ["ranking/*", "scope/*"]
HIT_RATE = "ranking/hit_rate_at_5"
SWEPT = Experiment.load(None, {"sweep.top_k": "1:3"}, {})
MOST = 4_000
"""Characters of what `print` shows."""


def texts(query: str) -> list[str]:
    return [text for text in TEXTS if any(word in text.lower() for word in query.split())]


def documents(query: str) -> list[Document]:
    return [Document(page_content=text) for text in texts(query)]


async def later(query: str) -> list[str]:
    await asyncio.sleep(0)
    return texts(query)


def wrong(query: str) -> list[str]:
    return TEXTS[2:]


def run(retriever: Any = texts, golden: Any = ROWS, **more: Any) -> Evaluation:
    return evaluate(retriever, golden, **({"metrics": CHEAP} | more))


def test_a_chunk_without_an_address_is_no_page_in_the_note_on_addresses() -> None:
    found = [Document(FORWARD, metadata={"source_url": "https://robots/arm"}), Document(TOPIC)]
    golden = [{"query": "forward kinematics", "evidence": [{"source_url": "/arm", "quote": FORWARD}]}]
    [note] = [n for n in run(lambda query: found, golden).report.notes if n.startswith("no returned chunk is from")]
    assert "returned 'https://robots/arm', expected '/arm'" in note


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDisk:
    made = make_experiment(tmp_path / "work")
    index_once(made)
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("COLUMNS", "100")
    return made


def figures(result: Evaluation) -> dict[str, float | None]:
    return {name: summary.value for name, summary in result.metrics.items()}


@pytest.mark.parametrize("package", [evals, retrievers])
def test_the_public_names_are_there_and_no_others(package: Any) -> None:
    assert [name for name in dir(package) if getattr(package, name)] == sorted(package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        _ = package.evaluat


RIGHT = {HIT_RATE: 1, "ranking/precision_at_1": 1, "scope/abstention": 1}


@pytest.mark.parametrize(
    ("retriever", "more", "expected"),
    [
        (texts, {}, RIGHT),
        (documents, {}, RIGHT),
        (later, {}, RIGHT),
        (foreign.Calling(call=documents), {}, RIGHT),
        (wrong, {}, {HIT_RATE: 0, "scope/false_answer": 1}),
        (lambda query: TEXTS, {"top_k": 1}, {"ranking/hit_rate_at_1": 0.5, "scope/false_answer": 1}),
    ],
)
def test_any_retriever_gives_the_figures_counted_by_hand(retriever: Any, more: Any, expected: dict[str, float]) -> None:
    result = run(retriever, **more)
    assert expected.items() <= figures(result).items() and result.passed
    assert {len(ids) for ids in result.to_pandas()["retrieved"]} <= {0, 1}


def test_what_is_returned_is_scored_at_its_own_depth_and_at_any_other_that_is_named() -> None:
    named = ["ranking/hit_rate_*", "ranking/ndcg_at_7", "scope/false_answer"]
    experiment = Experiment.load(None, {"criteria": {"ranking/hit_rate_at_6": ">= 1"}}, {})
    result = run(lambda query: TEXTS, top_k=2, metrics=named, experiment=experiment)
    at = {name: value for name, value in figures(result).items() if name.startswith("ranking/")}
    assert {"ranking/hit_rate_at_1": 0.5, "ranking/hit_rate_at_2": 1, "ranking/hit_rate_at_6": 1}.items() <= at.items()
    assert "hit rate 1.000" in str(result) and result.passed
    assert run(metrics=["content/verbatim"]).to_pandas()["content/verbatim"].dtype == float
    assert at.keys() - {*named} == {f"ranking/hit_rate_at_{k}" for k in (1, 2, 6)}
    for name in "ranking/hit_rate_at_0", "ranking/hit_rate_at_07", "ranking/hit_rate_at_1000", "ranking/x_at_5":
        with pytest.raises(evals.errors.ExperimentError, match="no metric"):
            run(metrics=[name])


def as_file(rows: list[dict[str, Any]]) -> Path:
    file = Path("golden.jsonl")
    file.write_text("\n".join(json.dumps({"id": f"q{n:03}", **row}) for n, row in enumerate(rows, 1)))
    return file


@pytest.mark.parametrize(
    "convert", [pd.DataFrame, lambda rows: Dataset.from_pandas(pd.DataFrame(rows)), iter, as_file, golden_set],
    ids=["DataFrame", "Dataset", "iterator", "file", "read before"],
)  # fmt: skip
def test_golden_data_of_any_kind(convert: Callable[[Any], Any], here: Path) -> None:
    result, plain = run(golden=convert(ROWS)), run()
    assert list(run(wrong).worst(2).index) == ["q001", "q002"]
    assert list(result.to_pandas().index) == ["q001", "q002", "q003"] and figures(result) == figures(plain)
    assert result.report.facts.dataset_fingerprint == plain.report.facts.dataset_fingerprint


def test_it_works_inside_a_running_event_loop() -> None:
    metrics = [*CHEAP, "ragas/nonllm_context_recall"]
    tenants = set[str]()

    def noted(query: str) -> Any:
        tenants.add(TENANT.get("none"))
        return later(query)

    async def cell() -> Evaluation:
        TENANT.set("ours")
        return run(noted, metrics=metrics)

    assert figures(asyncio.run(cell())) == figures(run(later, metrics=metrics)) and tenants == {"ours"}


def test_it_works_in_a_process_that_was_forked_after_a_run() -> None:
    run(later)
    with catch_warnings(action="ignore"), get_context("fork").Pool(1) as pool:
        assert pool.apply_async(run, [later]).get(60).passed


def test_outside_of_one_no_event_loop_is_told_of_in_errors() -> None:
    with pytest.raises(ForeignRetrieverError) as caught:
        run(lambda query: 3)
    assert "event loop" not in "".join(format_exception(caught.value))


def test_a_retriever_that_fails_while_it_is_timed_loses_no_figure() -> None:
    def find(_: str) -> list[str]:
        if next(calls) > 4:
            raise ConnectionError("gone")
        return ["text"]

    calls, golden = count(1), [{"query": letter, "evidence": [{"quote": "text"}]} for letter in "abc"]
    made = evaluate(find, golden, metrics=["ranking/*", "latency/total_p95_ms"])
    assert (made.metrics["ranking/hit_rate_at_5"].value, made.report.passed) == (1.0, False)
    assert made.report.incomplete.startswith("latency/total_p95_ms: 3 of 3 failed (query ")


def test_an_interrupt_in_a_running_event_loop_ends_the_run() -> None:
    asked = list[str]()

    def interrupting(query: str) -> list[str]:
        asked.append(query)
        if len(asked) == 1:
            pthread_kill(main_thread().ident or 0, SIGINT)
            time.sleep(0.5)
        return texts(query)

    async def cell() -> Evaluation:
        return run(interrupting)

    before = signal(SIGINT, default_int_handler)  # it is ignored where the tests run in the background of a shell
    with closing(asyncio.new_event_loop()) as loop, pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(cell())
    signal(SIGINT, before)
    assert asked == [ROWS[0]["query"]]


def test_nothing_is_printed_or_written_and_no_variable_of_the_user_changed(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    evaluate(texts, ROWS, experiment={"retriever": {"top_k": 3}})
    assert list(here.iterdir()) == [] and capfd.readouterr() == ("", "")
    assert os.environ["LANGSMITH_TRACING"] == "true" and "HF_HUB_OFFLINE" not in os.environ


def test_a_retriever_of_ours_and_a_vector_store_stay_open(made: OnDisk) -> None:
    whole = Experiment.load(made.config, {"metrics": CHEAP})
    configured = evaluate(experiment=whole)
    with QdrantRetriever.open(whole.retriever) as retriever:
        given = run(retriever, CASES)
        assert retriever.invoke("forward kinematics")
        for more in ({"top_k": 2}, {"experiment": {"retriever": {"threshold": 0.9}}}):
            with pytest.raises(ConfigError, match="its own settings"):
                run(retriever, CASES, **more)
    assert figures(given) == figures(configured)
    assert given.report.config["retriever"] == configured.report.config["retriever"]
    store = foreign.vector_store()
    assert run(store, CASES).metrics["ranking/ndcg_at_5"].n > 0
    assert store.similarity_search("forward kinematics")


def test_a_run_on_a_local_store_of_vectors_of_any_length_does_not_change_it(tmp_path: Path) -> None:
    """At its first search qdrant-client's local mode makes the vectors that it has read from a file of length 1."""
    where: dict[str, Any] = {"path": str(tmp_path / "db"), "collection_name": "robots"}
    model = DeterministicFakeEmbedding(size=64)
    QdrantVectorStore.from_documents(foreign.documents(), model, **where).client.close()
    with closing(QdrantClient(path=where["path"])) as client:
        store = QdrantVectorStore(client, "robots", embedding=model)
        done = evaluate(store, [{"query": "arm", "in_scope": False}], metrics="determinism/*")
    assert done.incomplete == "" and done.report.facts.collection


def test_texts_with_one_id_are_chunks_of_their_own_unless_labels_are_ids() -> None:
    pages = [Document(text, metadata={"chunk_id": 0}) for text in TEXTS]
    assert figures(run(lambda query: pages)) == figures(run(lambda query: TEXTS))
    notes = run(lambda query: pages, golden=[{"query": "x", "relevant_ids": {"0": 1}}]).report.notes
    assert any(note.startswith("1 chunk ids, such as '0', name several texts, which count as one") for note in notes)
    assert not any("name several texts" in note for note in run(documents).report.notes)


def test_chunks_of_a_collection_without_text_or_an_id_of_their_own_are_noted(made: OnDisk) -> None:
    def noted(golden: Any, **settings: Any) -> list[str]:
        keys = {f"retriever.{name}": value for name, value in settings.items()}
        done = evaluate(golden=golden, experiment=Experiment.load(made.config, {"metrics": CHEAP, **keys}))
        return [note for note in done.report.notes if "chunk ids, such" in note or "no text" in note]

    ids, quotes = [{"query": "arms", "relevant_ids": {"/docs/arms/kinematics": 1}}], [CASES[0]]
    of_page = {"metadata.map": {"chunk_id": "source_url"}}
    assert noted(quotes) == noted(ids, **of_page) == [], "ids may name pages"
    [shared] = noted(quotes, **of_page)
    assert "name several texts, which count as one chunk: all are relevant if one is; name another key" in shared
    [empty] = noted(ids, **of_page, **{"metadata.text_key": "body", "trust_embedding": True, "threshold": 0})
    assert re.fullmatch(r"(\d+) of \1 returned chunks have no text under payload key 'body' \(.*", empty)


def test_an_experiment_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{name: mine, retriever: {top_k: 1}}")
    assert figures(run(experiment=tmp_path / "mine.yaml")) == figures(run(top_k=1))


def test_what_cannot_be_is_an_error_of_its_kind() -> None:
    for wanted, error, message in (
        (lambda: run(42), ConfigError, "a LangChain retriever, QdrantVectorStore or function, got an object of int"),
        (lambda: run(golden=5), DatasetError, "a path, dictionaries, a DataFrame or a dataset, got int"),
        (lambda: run(golden=DatasetDict(a=Dataset.from_list([]))), DatasetError, "got DatasetDict of a; take one"),
        (lambda: run(lambda query: [3]), ForeignRetrieverError, "returned int 3 at place 1"),
        (lambda: run(golden=[{"query": "x"}]), DatasetError, "none of the 1 in-scope cases has labels .*--judge.model"),
        (lambda: run(experiment=SWEPT), ExperimentError, r"call evals\.sweep"),
        (lambda: sweep(Experiment()), ExperimentError, "has no sweep"),
        (lambda: run(top_k=0), ConfigError, "top_k: .*greater than or equal to 1, got 0 .set by the arguments"),
        (lambda: run(outputs=Outputs(export=Path("x"))), ExperimentError, "texts was given as an object.*its factory"),
        (lambda: compare_runs(run()), ReportError, "at least one run to compare, got '.{1,40}' alone"),
    ):
        with pytest.raises(error, match=f"(?s){message}"):
            wanted()


def test_the_report_and_the_page_or_one_file_by_its_ending(tmp_path: Path) -> None:
    result = run()
    folder = result.save(tmp_path / "run")
    assert sorted(file.name for file in folder.iterdir()) == ["report.html", "report.json"]
    report = load_report(folder / "report.json")
    assert report == joined(result.report.plain()) and report["passed"] is True
    for name, beginning in {"r.json": "{", "r.html": "<!doctype", "r.xml": "<?xml"}.items():
        file = result.save(tmp_path / name)
        assert file == tmp_path / name and file.read_text(encoding="utf-8").lower().startswith(beginning)


def test_cells_are_those_of_the_command(made: OnDisk, capsys: pytest.CaptureFixture[str]) -> None:
    axes = {"sweep.top_k": "1:3", "sweep.threshold": "0,0.3"}
    result = sweep(Experiment.load(made.config, {"metrics": CHEAP, "criteria": {}, **axes}))
    assert result.cells.shape[0] == 6 and result.cells["recommended"].sum() == 1
    assert bool(result.cells.loc[result.cells["recommended"], "in_set"].all())
    assert result.recommended is not None
    flags = ["--metrics", "[ranking/*, scope/*]", "--criteria", "{}", "--output", "grid.json", "--no-gate"]
    flags += [f"--{name.replace('_', '-')}={value}" for name, value in axes.items()]
    done = call(main, ["--config", made.config, *flags], capsys)
    assert done.code == 0, done.err
    written, plain = load_report(Path("grid.json")), result.report.plain()
    assert (written["grid"]["cells"], written["metrics"]) == (plain["grid"]["cells"], plain["metrics"])


def test_a_sweep_of_a_function_is_ranked_by_what_its_results_alone_can_score() -> None:
    asked: list[str] = []

    def find(query: str) -> list[str]:
        asked.append(query)
        return [f"nothing about {query}", f"all about {query}"]

    rows = [{"id": name, "query": name, "evidence": [{"quote": f"all about {name}"}]} for name in ("arms", "legs")]
    found = sweep(find, rows, top_k="1:2", metrics=["ranking/*"])
    assert (found.incomplete, [*found.result.config.objective.metrics]) == ("", ["ranking/mrr_at_10"])
    assert found.recommended is not None
    assert any("they are compared by ranking/mrr_at_10" in note for note in found.report.notes)
    asked.clear()
    named = Experiment.model_validate({"objective": {"metrics": "ranking/ndcg_at_10"}})
    said = r"chunks cannot be listed; name one that can, .* --objective.metrics ranking/mrr"
    with pytest.raises(ExperimentError, match=said):
        sweep(find, rows, top_k="1:2", experiment=named)
    assert asked == []
    whole = sweep(find, [{"id": "arms", "query": "arms", "relevant_ids": {"x": 1}}], top_k="1:2", metrics=["ranking/*"])
    assert [*whole.result.config.objective.metrics] == ["ranking/ndcg_at_10"]


@pytest.mark.parametrize("several", [range(1, 4), np.arange(1, 4), pd.Series([3, 1, 2]), ["1:2", 3], "1:3"])
def test_axes_and_metrics_are_given_in_any_form(several: Any) -> None:
    made = sweep(texts, ROWS, top_k=several, metrics="ranking/*, scope/*")
    assert made.cells["top_k"].tolist() == [1, 2, 3]
    assert made.cells.equals(sweep(texts, ROWS, top_k="1:3", experiment={"metrics": CHEAP}).cells)


def test_results_and_files_compare_alike(tmp_path: Path) -> None:
    good, bad = run(), run(wrong)
    (held,) = compare_runs(good, bad, tolerances={HIT_RATE: 0.1}, metrics=[HIT_RATE])
    (read,) = compare_runs(good.save(tmp_path / "a.json"), bad.save(tmp_path / "folder"), metrics=HIT_RATE)
    assert [d.difference for d in held.differences] == [-1.0] == [d.difference for d in read.differences]
    assert [one.passed for one in held.regressions] == [False]


@pytest.mark.parametrize("own", [False, True])
def test_a_baseline_is_held_unless_it_is_one_of_other_golden_data(own: bool, tmp_path: Path) -> None:
    rows = [{"query": f"forward kinematics {n}", "evidence": [{"quote": FORWARD}]} for n in range(12)]
    settings = {"baseline": str(run(golden=rows).save(tmp_path / "last.json"))}
    settings |= {"dataset.path": "x.jsonl"} if own else {}
    result = run(wrong, rows, experiment=Experiment.load(None, settings, {}))
    assert (result.passed, "was 0" not in str(result), "baseline last.json left out: it" in str(result)) == (own,) * 3


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html)).strip("\n")


def test_a_run_and_a_sweep_are_shown(made: OnDisk, capsys: pytest.CaptureFixture[str]) -> None:
    result = evaluate(experiment=Experiment.load(made.config))
    swept = sweep(made.config, top_k=[1, 3], threshold=[0.1, 0.3])
    for each, flags in ((result, []), (swept, ["--sweep.top-k", "1,3", "--sweep.threshold", "0.1,0.3"])):
        assert str(each) == repr(each) and len(repr(each)) < MOST
        assert call(main, ["--config", made.config, "--no-gate", *flags], capsys).out.startswith(f"{each!r}\n")
    for words in ("Which threshold and top_k?", "Grid of 4 cells", "queries pass", "Note: chosen out of 4 cells"):
        assert words in str(swept)
    shown, frame = result._repr_html_().split("<iframe ")
    assert text_of(shown) == repr(result)
    with pytest.MonkeyPatch.context() as kernel:
        shell = type("ZMQInteractiveShell", (), {})  # as rich knows a notebook's kernel, where it would draw by itself
        kernel.setattr(builtins, "get_ipython", shell, raising=False)
        assert repr(result) == text_of(shown) and result._repr_html_().startswith(shown)
    [page] = re.findall(r'srcdoc="([^"]*)"', frame)
    assert unescape(page) == result.save("page.html").read_text(encoding="utf-8")


def test_a_comparison_is_shown(made: OnDisk, capsys: pytest.CaptureFixture[str]) -> None:
    for top_k in ("1", "3"):
        call(main, ["--config", made.config, f"--retriever.top-k={top_k}", f"--output={top_k}.json"], capsys)
    [comparison] = compare_runs("1.json", "3.json")
    assert call(compare, ["1.json", "3.json"], capsys).out.startswith(f"{comparison!r}\n")
    assert "ranking/" in str(comparison) and len(repr(comparison)) < MOST
    assert text_of(comparison._repr_html_()) == repr(comparison)
