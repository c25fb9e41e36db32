"""What is checked before any work: labels, objective, files; and the names and files of a run."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from evals import evaluate
from evals.cases.reading import golden_set
from evals.config.experiment import ExperimentConfig, TrackingConfig
from evals.errors import DatasetError, ExperimentError
from evals.experiment.bench import index_if_stale, open_bench
from evals.experiment.inputs import load_inputs, with_objective
from evals.experiment.outputs import Outputs, check_outputs, new_file, run_names, with_report
from evals.grid.axes import plan
from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, StoreError
from retrievers.indexing.chunking import CHUNKING_VERSION
from tests.support.collections import mark
from tests.support.command import refusal
from tests.support.experiment import PAGES, Experiment, index_once, make_experiment, settings, silent

LABELLED: dict[str, Any] = {"id": "l", "query": "how?", "relevant_ids": {"a": 1}}
ANSWERED: dict[str, Any] = {"id": "a", "query": "why?", "reference_answer": "So."}
BARE: dict[str, Any] = {"id": "b", "query": "when?"}
OUTSIDE: dict[str, Any] = {"id": "o", "query": "soup?", "in_scope": False}
JUDGE = {"model": "cohere:command-a-03-2025"}
SWEEP = {"top_k": [1, 2]}
PRECISION = "ragas/llm_context_precision"


def config(**settings: Any) -> ExperimentConfig:
    return ExperimentConfig.model_validate({"name": "x", "dataset": {"path": "x.jsonl"}, **settings})


def test_something_must_score_some_query() -> None:
    for rows, changes, refused in (
        ((LABELLED, BARE, OUTSIDE), {}, ""),
        ((LABELLED, ANSWERED), {"judge": JUDGE, "metrics": ["ranking/*"]}, ""),
        ((ANSWERED, OUTSIDE), {"judge": JUDGE}, ""),
        ((BARE,), {"judge": JUDGE}, ""),
        ((LABELLED, ANSWERED), {"judge": JUDGE, "sweep": SWEEP, "objective": {"metrics": "ranking/ndcg_at_3"}}, ""),
        ((ANSWERED,), {"judge": JUDGE, "metrics": ["ranking/*"], "criteria": {PRECISION: ">= 0.5"}}, ""),
        ((OUTSIDE, BARE), {}, r"none of the 1 in-scope cases has labels .* there is no judge .*: row 1; add"),
        ((ANSWERED,), {"judge": JUDGE, "metrics": ["ranking/*"]}, f"no metric such as {PRECISION}"),
        ((BARE,), {"judge": JUDGE, "metrics": [PRECISION]}, f"none has the reference_answer that {PRECISION}"),
        (tuple({"query": f"how {n}?"} for n in range(5)), {}, r"of the 5 .*: row 0, row 1, row 2, .*; add"),
    ):
        if refused:
            said = refusal(DatasetError, load_inputs, config(**changes), golden_set(rows))
            assert re.search(refused, said) and "golden label" in said and "golden synthesize" in said
        else:
            load_inputs(config(**changes), golden_set(rows))


def test_cells_are_compared_by_what_can_score_the_queries() -> None:
    named = config(judge=JUDGE, sweep=SWEEP, objective={"metrics": "ranking/ndcg_at_3"})
    with pytest.raises(ExperimentError, match=f"ndcg_at_3 compares cells by labels, and no query .*{PRECISION}"):
        with_objective(load_inputs(named, golden_set([ANSWERED, OUTSIDE])), listed=True)
    swept = config(judge=JUDGE, sweep=SWEEP)
    for rows, metric in (([ANSWERED, OUTSIDE], PRECISION), ([LABELLED], "ranking/ndcg_at_10")):
        assert [*with_objective(load_inputs(swept, golden_set(rows)), listed=True).config.objective.metrics] == [metric]


def test_runs_of_one_name_at_once_do_not_overwrite_each_others_reports(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda _: new_file(tmp_path / "reports", "nightly"), range(24)))
    assert {file.name for file in files} == {"nightly.json", *(f"nightly-{number}.json" for number in range(2, 25))}
    with pytest.raises(ConfigError, match=r"nightly\.json: cannot be written: "):
        new_file(tmp_path / "reports" / "nightly.json", "x")


def test_a_run_that_is_tracked_has_a_report_in_any_case(here: Path) -> None:
    own, tracked, untracked = Outputs(report=here / "own.json"), TrackingConfig(), TrackingConfig(enabled=False)
    for wanted, tracking in ((own, tracked), (Outputs(), untracked)):
        check_outputs(wanted, tracking)
        assert with_report(wanted, tracking, "one") == wanted
    assert list(here.iterdir()) == []
    assert with_report(Outputs(), tracked, "one") == Outputs(report=Path("mlruns/reports/one.json"))
    (here / "mlruns").touch()  # is not asked for where nothing goes there
    check_outputs(own, TrackingConfig(uri="http://127.0.0.1:9"))


def test_a_run_is_named_by_its_settings() -> None:
    for retriever, sweep, label in (
        ({"mode": "hybrid", "top_k": 8, "threshold": 0.25}, {}, "hybrid k8 t0.25"),
        ({"mode": "semantic", "rerank": "mmr", "threshold": 1 / 3}, {}, "semantic+mmr k5 t0.333"),
        ({"python": "package.module:make"}, {}, "make k5"),
        ({}, {"mode": ["semantic", "hybrid"], "top_k": [3, 8], "threshold": [0, 0.3]}, "grid 8 cells semantic,hybrid"),
    ):
        made = config(retriever=retriever, sweep=sweep)
        started = datetime(2026, 1, 2, 4, 4, 5, tzinfo=timezone(timedelta(hours=1)))
        name, stem = run_names(made, plan(made.retriever, made.sweep) if sweep else None, started)
        assert (name, stem) == (f"{label} x 20260102-030405", "x-20260102-030405")


# The collection that an experiment makes of its own pages: made, brought up to date, or left alone


@pytest.fixture
def made(tmp_path: Path) -> Experiment:
    made = make_experiment(tmp_path)
    index_once(made)
    return made


def stale(config: ExperimentConfig) -> bool:
    return index_if_stale(config, {}, silent)


def stored(config: ExperimentConfig) -> dict[str | None, tuple[str, str]]:
    with QdrantRetriever.open(config.retriever, env={}) as retriever:
        return {chunk.heading: (chunk.text, chunk.chunk_context or "") for chunk in retriever.chunks()}


def test_changed_added_and_removed_pages_are_brought_up_to_date(made: Experiment) -> None:
    config = settings(made)
    made.write_pages({"ros/topics.md": PAGES["ros/topics.md"].replace("lost messages", "what was lost")})
    made.write_pages({"ros/services.md": "# Services\n\nA service answers a request.\n"})
    (made.docs / "arms" / "kinematics.md").unlink()
    with ThreadPoolExecutor(2) as pool:  # of two runs at once, one waits for the other and then looks again
        assert sorted(pool.map(stale, [config] * 2)) == [False, True]
    found = stored(config)
    assert set(found) == {"Topics", "Quality of service", "Services"}
    assert "what was lost" in found["Quality of service"][0] and not stale(config)


def test_another_context_indexes_again_and_none_named_keeps_the_recorded_one(
    made: Experiment, caplog: pytest.LogCaptureFixture
) -> None:
    before, config = stored(settings(made)), settings(made, index__context="title")
    assert stale(config) and not stale(config) and not stale(settings(made))
    assert "index.context 'path', not 'title': it is made anew, and stays so" in caplog.text
    after = stored(config)
    assert {heading: text for heading, (text, _) in after.items()} == {k: text for k, (text, _) in before.items()}
    assert after["Forward kinematics"][1] == "Kinematics"
    with QdrantRetriever.open(config.retriever, env={}, index=config.index) as retriever:
        assert retriever.info.index["context"] == "title"


@pytest.mark.parametrize("other", [{"chunking": CHUNKING_VERSION - 1}, {"state": "building"}])
def test_what_was_cut_by_another_version_or_is_unfinished_is_made_anew(made: Experiment, other: dict[str, Any]) -> None:
    config = settings(made)
    mark(config.retriever.store, "robots", **other)
    assert stale(config) and not stale(config)


def test_a_collection_that_is_not_its_own_is_refused_with_another_context(made: Experiment) -> None:
    inputs = load_inputs(settings(made, index__collection=None, index__context="none"))
    said = r"with index\.context 'path', but index\.context 'none' is expected"
    with pytest.raises(StoreError, match=said), open_bench(inputs, {}, silent):
        pass


@pytest.mark.parametrize(
    "change",
    [
        {"index__collection": None},
        {"index__collection": "another"},
        {"sources__dir": None},
        {"retriever__store": {"url": "http://127.0.0.1:9", "path": None}},
        {"index__collection": "robots", "retriever__python": "mine:make"},
        {"index__collection": RetrieverConfig.model_fields["collection"].default, "retriever__python": "mine:make"},
    ],
)
def test_only_an_embedded_collection_of_its_own_is_written_to(tmp_path: Path, change: dict[str, Any]) -> None:
    made = make_experiment(tmp_path)
    assert not stale(settings(made, **change)) and not made.store.exists()


def test_pages_that_changed_and_were_not_indexed_again_are_noted(tmp_path: Path) -> None:
    made = make_experiment(tmp_path)
    index_once(made)
    made.write_pages({name: text.replace(" the ", " a ") for name, text in PAGES.items()})
    said = "returned chunks differ from their pages (content/verbatim 0."
    for docs in (made.docs, None):
        done = evaluate(experiment=settings(made, index__collection=None, sources__dir=docs, metrics="*"))
        assert any(note.startswith(said) for note in done.report.notes) == bool(docs)


def test_the_collection_that_a_retriever_of_the_users_own_names_is_made(tmp_path: Path) -> None:
    made = make_experiment(tmp_path)
    own = {"retriever__python": "mine:make", "retriever__collection": "robots"}
    assert stale(settings(made, **own, retriever__store={"path": made.store}))
    assert len(stored(settings(made))) == 5
