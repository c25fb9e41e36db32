"""`python -m evals.run` with a sweep."""

import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient

from evals.collect import passes
from evals.run import main
from retrievers import QdrantRetriever
from retrievers.search.candidates import Candidates
from tests.evals.run.conftest import Run
from tests.support.experiment import Experiment, load_report

SWEEP = ("--sweep.top-k", "1:4", "--sweep.threshold", "0:0.9:0.1")


@pytest.fixture(scope="module")
def swept(indexed: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the printed text, the report and the page of a sweep."""
    folder = tmp_path_factory.mktemp("swept")
    files = ("--output", folder / "r.json", "--html", folder / "r.html")
    printed, complaints = StringIO(), StringIO()
    with redirect_stdout(printed), redirect_stderr(complaints):
        assert main([*map(str, ("--config", indexed.config, *SWEEP, *files))]) == 0
    assert complaints.getvalue() == ""
    (folder / "out.txt").write_text(printed.getvalue(), encoding="utf-8")
    return folder


def test_a_sweep_prints_its_best_cells_and_what_the_best_of_them_is_worth(swept: Path) -> None:
    printed = (swept / "out.txt").read_text(encoding="utf-8")
    assert "Grid of 40 cells  1 × retrieved, 4 × top_k, 10 × threshold · 6 queries" in printed
    assert "When to return nothing (semantic, top_k" in printed
    assert "chosen out of 40 cells on these queries, so its figures are optimistic" in printed


def test_what_the_threshold_reads_is_swept_without_another_search(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[object] = []
    collect = passes.collect

    def counted(*given: Any) -> Candidates:
        searches.append(given)
        return collect(*given)

    monkeypatch.setattr(passes, "collect", counted)
    files = ("--output", folder / "r.json", "--quiet")
    kinds, thresholds = ("each", "best"), ("0.2", "0.4")
    flags = ("--sweep.threshold-on", ",".join(kinds), "--sweep.threshold", ",".join(thresholds))
    assert run(*flags, *files).code == 0 and len(searches) == 1
    grid = load_report(folder / "r.json")["grid"]
    assert [one["parameters"]["threshold_on"] for one in grid["configurations"]] == [*kinds]
    means = grid["metrics"]["ranking/precision_at_3"]["mean"]
    alone = []
    for kind, threshold in product(kinds, thresholds):
        assert run("--retriever.threshold-on", kind, "--retriever.threshold", threshold, *files).code == 0
        alone.append(load_report(folder / "r.json")["metrics"]["ranking/precision_at_3"]["value"])
    assert means == pytest.approx(alone) and means[:2] != means[2:]


def test_the_report_is_of_the_chosen_cell_and_holds_the_grid(swept: Path) -> None:
    made = load_report(swept / "r.json")
    grid, chosen = made["grid"], made["grid"]["choice"]["recommended"]["cell"]
    place = grid["cells"]["index"].index(chosen)
    for setting in ("top_k", "threshold"):
        assert made["config"]["retriever"][setting] == grid["cells"][setting][place]
    own = grid["metrics"].keys() & made["metrics"].keys()
    assert {"ranking/ndcg_at_10", "scope/abstention", "scope/false_abstention"} <= own
    for name in own:
        assert grid["metrics"][name]["mean"][place] == made["metrics"][name]["value"]
    assert made["config"]["sweep"]["top_k"] == [1, 2, 3, 4]
    assert grid["ranking"]["metrics"] == {"ranking/ndcg_at_10": 0.8, "scope/abstention": 0.2}
    assert max(grid["ranking"]["values"]) - grid["ranking"]["values"][place] <= grid["choice"]["margin"]


def test_the_exported_settings_are_those_of_the_chosen_cell(run: Run, folder: Path, indexed: Experiment) -> None:
    store = ("--retriever.store.path", os.path.relpath(indexed.store))
    assert run(*SWEEP, *store, "--output", "r.json", "--export", "retriever.yaml").code == 0
    written = yaml.safe_load((folder / "retriever.yaml").read_text(encoding="utf-8"))
    made = load_report(folder / "r.json")
    models = {name: written[name].pop("model") for name in ("embedding", "cross_encoder")}
    assert models == {"embedding": "l2_supercat_256", "cross_encoder": "rerank-v3.5"}
    expected = made["config"]["retriever"]
    for name in models:
        del expected[name]["model"]
    assert written == expected
    with QdrantRetriever.from_config(folder / "retriever.yaml") as retriever:
        for query in made["queries"]:
            ids = [found.chunk.chunk_id for found in retriever.search(query["query"]).chunks]
            assert ids == [found["chunk_id"] for found in query["retrieved"]]


@pytest.mark.parametrize(
    ("criterion", "code"), [("{ranking/ndcg_at_10: '>= 0.7'}", 0), ("{ranking/ndcg_at_10: '>= 0.9'}", 1)]
)
def test_criteria_are_held_against_the_chosen_cell(run: Run, criterion: str, code: int) -> None:
    assert run(*SWEEP, "--criteria", criterion).code == code


def test_latency_and_determinism_are_of_the_configuration(run: Run, folder: Path) -> None:
    arguments = ("--metrics", "[ranking/ndcg_at_10, determinism/rate, latency/total_p50_ms]", "--output", "r.json")
    assert run(*SWEEP, *arguments).code == 0
    made = load_report(folder / "r.json")
    (configuration,) = made["grid"]["configurations"]
    assert configuration["metrics"]["determinism/rate"]["value"] == 1.0
    assert configuration["metrics"]["latency/total_p50_ms"]["value"] > 0
    assert set(made["grid"]["metrics"]) == {"ranking/ndcg_at_10", "scope/abstention", "cost/context_tokens"}


def test_a_grid_that_cannot_be_ranked_is_incomplete_and_kept(run: Run, folder: Path) -> None:
    done = run(*SWEEP, "--objective.metrics", "metadata/completeness", "--output", "r.json", "--export", "x.yaml")
    assert done.code == 3
    assert "incomplete: the cells are not ranked: metadata/completeness scores" in done.err
    assert load_report(folder / "r.json")["grid"]["choice"] is None
    assert not (folder / "x.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sweep.threshold", "0:1:0.3"], "miss 1"),
        (["--sweep.top-k", "1:4", "--objective.metrics", "ranking/ndgc"], "objective: no metric 'ranking/ndgc'"),
        (["--sweep.top-k", "1:4", "--objective.metrics", "ragas/llm_context_recall"], "needs a judge"),
        (["--sweep.top-k", "1:4", "--objective.constraints", "{scope/false_answer: '< 0'}"], "none of 4 cells has"),
    ],
)
def test_bad_input_is_told_in_words(run: Run, folder: Path, arguments: list[str], said: str) -> None:
    done = run(*arguments, "--output", "r.json")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert list(folder.iterdir()) == []


def test_one_query_and_no_query_in_scope(run: Run) -> None:
    alone = run(*SWEEP, "--ids", "forward")
    assert (alone.code, alone.err) == (0, "")
    assert "whether a threshold separates in scope from out of scope is not known" in alone.out
    outside = run(*SWEEP, "--ids", "france,soup", "--objective.metrics", "scope/abstention")
    assert (outside.code, outside.err) == (0, "")
    nothing = run(*SWEEP, "--ids", "france,soup")
    assert nothing.code == 3
    assert "ranking/ndcg_at_10 scores no query" in nothing.err


def test_mlflow_has_the_grid_the_cells_worth_opening_and_the_traces_of_the_recommended_one(
    run: Run, folder: Path, mlflow_database: Path
) -> None:
    uri = f"sqlite:///{shutil.copy(mlflow_database, folder)}"
    swept = ("--sweep.mode", "semantic,hybrid", "--sweep.top-k", "3,5", "--output", "r.json")
    tracked = ("--tracking.enabled", "true", "--tracking.run-name", "g")
    done = run(*swept, *tracked, "--tracking.uri", uri)
    assert (done.code, done.err) == (0, "")
    made, client = load_report(folder / "r.json"), MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("retrieval-evals").experiment_id
    (parent,) = client.search_runs([experiment], "attributes.run_name = 'g'")
    cells = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    names = {int(cell.data.tags["cell"]): cell.info.run_name for cell in cells}
    recommended = made["grid"]["choice"]["recommended"]["cell"]
    assert [cell for cell, name in names.items() if "★" in name] == [recommended]
    assert len(names) <= 8 and {cell.data.tags["role"] for cell in cells} == {"cell"}
    assert parent.data.tags["role"] == "grid" and len(parent.data.metrics) <= 40
    assert "tables/grid.json" in [file.path for file in client.list_artifacts(parent.info.run_id, "tables")]
    traces = client.search_traces(locations=[experiment], filter_string=f"attributes.run_id = '{parent.info.run_id}'")
    assert len(traces) == len(made["queries"])
    assert done.out.splitlines()[-1] == f"MLflow: python -m evals ui --tracking.uri {uri}"
