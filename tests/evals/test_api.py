"""The public functions, called as a script or a notebook would."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset
from langchain_core.documents import Document

import evals
from evals import Evaluation, Experiment, Golden, compare_runs, evaluate, sweep
from evals.errors import DatasetError, ExperimentError, ReportError
from evals.run import main
from retrievers import QdrantRetriever
from retrievers.errors import ConfigError, ForeignRetrieverError
from tests.support import foreign
from tests.support.command import call
from tests.support.experiment import CASES, FORWARD, TOPIC, joined, load_report, make_experiment
from tests.support.experiment import Experiment as OnDisk

TEXTS = [FORWARD, TOPIC, "An onion soup with cheese."]
ROWS: list[dict[str, Any]] = [
    {"query": "forward kinematics", "evidence": [{"quote": FORWARD}]},
    {"query": "named channel", "evidence": [{"quote": TOPIC}], "query_type": "factual"},
    {"query": "zebra", "in_scope": False},
]
CHEAP = ["ranking/*", "scope/*"]


def texts(query: str) -> list[str]:
    return [text for text in TEXTS if any(word in text.lower() for word in query.split())]


def documents(query: str) -> list[Document]:
    return [Document(page_content=text) for text in texts(query)]


async def later(query: str) -> list[str]:
    await asyncio.sleep(0)
    return texts(query)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDisk:
    made = make_experiment(tmp_path / "work")
    monkeypatch.chdir(made.folder)
    return made


def figures(result: Evaluation) -> dict[str, float | None]:
    return {name: summary.value for name, summary in result.metrics.items()}


def test_the_public_names_exist() -> None:
    assert all(getattr(evals, name).__module__.startswith("evals.") for name in evals.__all__)
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        _ = evals.evaluat


class TestEvaluate:
    @pytest.mark.parametrize("retriever", [texts, documents, later, foreign.Calling(call=documents)])
    def test_any_retriever_gives_the_figures_counted_by_hand(self, retriever: Any) -> None:
        result = evaluate(retriever, ROWS, metrics=CHEAP)
        assert result.metrics["ranking/hit_rate_at_5"].value == 1
        assert result.metrics["ranking/precision_at_1"].n == 2
        assert result.metrics["scope/abstention"].value == 1
        assert result.passed

    def test_a_wrong_answer_counts(self) -> None:
        result = evaluate(lambda query: [TEXTS[2]], ROWS, metrics=CHEAP)
        assert result.metrics["ranking/hit_rate_at_5"].value == 0
        assert result.metrics["scope/false_answer"].value == 1
        assert list(result.worst(2).index) == ["q001", "q002"]

    def test_top_k_cuts(self) -> None:
        result = evaluate(lambda query: TEXTS, ROWS, metrics=CHEAP, top_k=1)
        assert [len(ids) for ids in result.to_pandas()["retrieved"]] == [1, 1, 1]
        assert result.metrics["ranking/hit_rate_at_1"].value == 0.5

    @pytest.mark.parametrize(
        "convert",
        [
            lambda rows: rows,
            pd.DataFrame,
            lambda rows: Dataset.from_pandas(pd.DataFrame(rows)),
            iter,
        ],
        ids=["list", "DataFrame", "Dataset", "iterator"],
    )
    def test_golden_data_of_any_kind(self, convert: Callable[[Any], Any]) -> None:
        result = evaluate(texts, convert(ROWS), metrics=CHEAP)
        assert list(result.to_pandas().index) == ["q001", "q002", "q003"]
        assert (
            result.report.facts.dataset_fingerprint
            == evaluate(texts, ROWS, metrics=CHEAP).report.facts.dataset_fingerprint
        )

    def test_a_file_equals_its_rows(self, tmp_path: Path) -> None:
        file = tmp_path / "golden.jsonl"
        named = [{"id": f"c{number}", **row} for number, row in enumerate(ROWS)]
        file.write_text("\n".join(map(json.dumps, named)))
        assert figures(evaluate(texts, file, metrics=CHEAP)) == figures(evaluate(texts, named, metrics=CHEAP))

    def test_it_works_inside_a_running_event_loop(self) -> None:
        async def cell() -> Evaluation:
            return evaluate(later, ROWS, metrics=[*CHEAP, "ragas/nonllm_context_recall"])

        assert figures(asyncio.run(cell())) == figures(
            evaluate(later, ROWS, metrics=[*CHEAP, "ragas/nonllm_context_recall"])
        )

    def test_nothing_is_printed_or_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        evaluate(texts, ROWS)
        assert list(tmp_path.iterdir()) == []
        assert capfd.readouterr() == ("", "")

    def test_a_retriever_of_ours_stays_open(self, made: OnDisk) -> None:
        whole = Experiment.load(made.config, {"metrics": CHEAP})
        configured = evaluate(experiment=whole)
        with QdrantRetriever.open(whole.retriever) as retriever:
            given = evaluate(retriever, CASES, metrics=CHEAP)
            assert retriever.invoke("forward kinematics")
        assert figures(given) == figures(configured)
        assert given.report.config["retriever"] == configured.report.config["retriever"]

    def test_a_vector_store_stays_open(self) -> None:
        store = foreign.vector_store()
        result = evaluate(store, CASES, metrics=CHEAP)
        assert result.metrics["ranking/ndcg_at_5"].n > 0
        assert store.similarity_search("forward kinematics")

    @pytest.mark.parametrize(
        ("retriever", "error", "message"),
        [
            (42, ConfigError, "expected a LangChain BaseRetriever or a QdrantVectorStore.*got an object of int"),
            (lambda query: None, ForeignRetrieverError, "returned NoneType None; expected a list"),
            (lambda query: [3], ForeignRetrieverError, "returned int 3 at place 1"),
            (lambda query: 1 / 0, ForeignRetrieverError, "ZeroDivisionError"),
        ],
    )
    def test_a_retriever_that_cannot_be_evaluated(self, retriever: Any, error: type, message: str) -> None:
        with pytest.raises(error, match=message):
            evaluate(retriever, ROWS, metrics=CHEAP)

    @pytest.mark.parametrize(
        ("golden", "message"),
        [
            (
                [{"query": "x"}],
                "1 of 1 in-scope cases have no labels .* there is no judge .*--judge.model.*: row 0;",
            ),
            (["x"], "row 0: expected a JSON object, got 'x'"),
            ([{"query": "x", "in_scop": False}], "in_scop: unknown field.*in_scope"),
            ([{"query": "x", "relevant_ids": "{"}], "row 0: relevant_ids: Input should be a valid dictionary"),
            ([], "holds no case"),
            (7, "expected a path, a list.*got int"),
            ({"query": "x"}, "expected a path, a list.*got dict"),
            ([{"query": "x", "evidence": [{"heading": "H"}]}], "expected a quote, or the source_url"),
        ],
    )
    def test_golden_data_with_faults(self, golden: Any, message: str) -> None:
        with pytest.raises(DatasetError) as raised:
            evaluate(texts, golden, metrics=CHEAP)
        assert raised.match(f"(?s){message}") or message in str(raised.value)

    def test_a_sweep_is_no_single_run(self) -> None:
        with pytest.raises(ExperimentError, match=r"call evals\.sweep"):
            evaluate(texts, ROWS, experiment=Experiment.load(None, {"sweep.top_k": "1:3"}))

    def test_settings_of_a_retriever_of_ours_are_its_own(self, made: OnDisk) -> None:
        whole = Experiment.load(made.config, {"metrics": CHEAP})
        evaluate(experiment=whole)
        with QdrantRetriever.open(whole.retriever) as retriever, pytest.raises(ConfigError, match="its own settings"):
            evaluate(retriever, CASES, top_k=2)


class TestSave:
    def test_the_report_and_the_page(self, tmp_path: Path) -> None:
        result = evaluate(texts, ROWS, metrics=CHEAP)
        folder = result.save(tmp_path / "run")
        assert sorted(file.name for file in folder.iterdir()) == ["report.html", "report.json"]
        report = load_report(folder / "report.json")
        assert report == joined(result.report.plain())
        assert report["passed"] is True
        assert compare_runs(folder / "report.json", evaluate(texts, ROWS, metrics=CHEAP)), "it is read as a report"

    @pytest.mark.parametrize(("name", "beginning"), [("r.json", "{"), ("r.html", "<!doctype"), ("r.xml", "<?xml")])
    def test_one_file_by_its_ending(self, tmp_path: Path, name: str, beginning: str) -> None:
        file = evaluate(texts, ROWS, metrics=CHEAP).save(tmp_path / name)
        assert file.read_text(encoding="utf-8").lower().startswith(beginning)
        assert [file] == list(tmp_path.iterdir())


class TestSweep:
    def test_cells_equal_the_command_and_single_runs(self, made: OnDisk, capsys: pytest.CaptureFixture[str]) -> None:
        axes = {"sweep.top_k": "1:3", "sweep.threshold": "0,0.3"}
        result = sweep(Experiment.load(made.config, {"metrics": CHEAP, "criteria": {}, **axes}))
        assert result.cells.shape[0] == 6
        assert result.cells["recommended"].sum() == 1
        assert bool(result.cells.loc[result.cells["recommended"], "in_set"].all())
        assert result.recommended is not None and result.reason
        row = result.cells[(result.cells["top_k"] == 2) & (result.cells["threshold"] == 0.3)].iloc[0]
        named = [*CHEAP, "ranking/ndcg_at_3"]
        one = {"metrics": named, "criteria": {}, "retriever.top_k": 2, "retriever.threshold": 0.3}
        single = evaluate(experiment=Experiment.load(made.config, one))
        assert row["ranking/ndcg_at_3"] == single.metrics["ranking/ndcg_at_3"].value
        flags = ["--metrics", "[ranking/*, scope/*]", "--criteria", "{}", "--output", "grid.json", "--no-gate"]
        done = call(
            main, ["--config", made.config, *flags, *(f"--{k.replace('_', '-')}={v}" for k, v in axes.items())], capsys
        )
        assert done.code == 0, done.err
        written = load_report(Path("grid.json"))
        assert written["grid"]["cells"] == result.report.plain()["grid"]["cells"]
        assert written["metrics"] == result.report.plain()["metrics"]

    def test_without_an_axis(self) -> None:
        with pytest.raises(ExperimentError, match="has no sweep"):
            sweep(Experiment())


class TestCompare:
    def test_results_and_files_compare_alike(self, tmp_path: Path) -> None:
        good = evaluate(texts, ROWS, metrics=CHEAP)
        bad = evaluate(lambda query: [TEXTS[2]], ROWS, metrics=CHEAP)
        name = "ranking/hit_rate_at_5"
        (held,) = compare_runs(good, bad, tolerances={name: 0.1}, metrics=[name])
        (read,) = compare_runs(good.save(tmp_path / "a.json"), bad.save(tmp_path / "b.json"), metrics=[name])
        assert [d.difference for d in held.differences] == [-1.0] == [d.difference for d in read.differences]
        assert [one.passed for one in held.regressions] == [False]

    def test_a_run_alone(self) -> None:
        with pytest.raises(ReportError, match="at least one run to compare"):
            compare_runs("a.json")

    @pytest.mark.parametrize("drop", [-0.1, float("nan"), float("inf")])
    def test_a_tolerance_that_is_none(self, drop: float) -> None:
        with pytest.raises(ExperimentError, match="expected a number of 0 or more"):
            compare_runs("a.json", "b.json", tolerances={"ranking/ndcg_at_10": drop})


class TestExperiment:
    def test_settings_stand_over_the_file_and_the_environment(self, made: OnDisk) -> None:
        env = {"RAG_DEFAULT_TOP_K": "7"}
        assert Experiment.load(None, env=env).retriever.top_k == 7
        assert Experiment.load(None, {"retriever": {"top_k": 2}}, env).retriever.top_k == 2
        assert Experiment.load(made.config, {"retriever.top_k": 3}).retriever.top_k == 3

    def test_a_wrong_setting_is_named(self) -> None:
        with pytest.raises(ConfigError, match=r"retriever.top_k: .*0.*the arguments"):
            Experiment.load(None, {"retriever.top_k": 0})


def test_golden_queries_are_read_once_and_used_twice(tmp_path: Path) -> None:
    result = evaluate(texts, ROWS, metrics=CHEAP)
    golden = Golden(
        cases=tuple(o.case for o in result.result.observed.observations), places={}, name="g", fingerprint=""
    )
    assert figures(evaluate(texts, golden, metrics=CHEAP)) == figures(result)


def test_a_sweep_of_a_function_is_ranked_by_what_its_results_alone_can_score() -> None:
    """By evidence, and without a list of all chunks, it is not known how many are relevant: nDCG scores no query."""
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
    with pytest.raises(
        ExperimentError, match=r"chunks cannot be listed; name one that can, .* --objective.metrics ranking/mrr"
    ):
        sweep(find, rows, top_k="1:2", experiment=named)
    assert asked == []
    by_id = [{"id": "arms", "query": "arms", "relevant_ids": {"x": 1}}]
    whole = sweep(find, by_id, top_k="1:2", metrics=["ranking/*"])
    assert [*whole.result.config.objective.metrics] == ["ranking/ndcg_at_10"]
