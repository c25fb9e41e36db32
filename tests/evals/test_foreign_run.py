"""`evals.run` on retrievers of the user's own: what is scored, what is not and why, and every fault they can have."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient

from evals.run import main
from tests.support.command import Done, call
from tests.support.experiment import CASES, FORWARD, SETTINGS, Experiment, load_report, make_experiment
from tests.support.foreign import HERE, chunks

Run = Callable[..., Done]
REPORT = "report.json"
BY_ID: Sequence[Mapping[str, Any]] = [
    {"id": "forward", "query": "forward kinematics of an arm", "relevant_ids": {chunks()[1].chunk_id: 2}},
    {"id": "soup", "query": "onion soup recipe with cheese", "in_scope": False},
]
HEADED: Sequence[Mapping[str, Any]] = [
    {
        "id": "head",
        "query": "kinematics",
        "evidence": [{"source_url": "/docs/arms/kinematics", "heading": "Kinematics"}],
    }
]
NEED_ALL = ("recall", "map", "ndcg", "expected_top3_in_5")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment that names no retriever yet, in the current folder."""
    made = make_experiment(tmp_path / "work")
    made.write_config({k: v for k, v in SETTINGS.items() if k not in ("retriever", "index")})
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def run(made: Experiment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the experiment on a factory of `tests.support.foreign`, with further arguments."""
    monkeypatch.setenv("COLUMNS", "160")
    return lambda name, *more: call(
        main, ["--config", made.config, "--retriever.python", f"{HERE}:{name}", "--output", REPORT, *more], capsys
    )


def report() -> Mapping[str, Any]:
    return load_report(Path(REPORT))


def metrics(prefix: str = "") -> Mapping[str, Any]:
    return {name: metric for name, metric in report()["metrics"].items() if name.startswith(prefix)}


def needs_more_labels(name: str) -> bool:
    """Return True for a metric that these golden data cannot score: of three relevant chunks."""
    return "top3" in name


def index(made: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    """Index the pages by an experiment of our own retriever."""
    own = made.folder / "own.yaml"
    own.write_text(yaml.safe_dump({**SETTINGS, "metrics": ["ranking/*"]}))
    assert call(main, ["--config", own, "--quiet"], capsys).code == 0


def test_a_retriever_without_list_and_scores(run: Run) -> None:
    done = run("plain", "--metrics", "*", "--verbose")
    assert (done.code, done.err) == (0, "")
    found = metrics()
    assert {(metric["value"], metric["n"], metric["note"]) for metric in metrics("candidates/").values()} == {
        (None, 0, "the retriever gives its result alone, not the candidates it came from")
    }
    for name, metric in metrics("ranking/").items():
        if needs_more_labels(name):
            assert metric["value"] is None
            continue
        whole = any(part in name for part in NEED_ALL) and "evidence" not in name
        assert (metric["value"] is None) is whole
        assert metric["note"] == ("the retriever's chunks cannot be listed" if whole else metric["note"])
    for name in ("ragas/id_context_recall", "ragas/nonllm_context_precision", "ragas/nonllm_context_recall"):
        assert (found[name]["value"], found[name]["n"], found[name]["n_unscored"]) == (None, 0, 4)
    for name in ("scope/auroc", "scope/max_out_of_scope_score", "determinism/max_score_delta"):
        assert (found[name]["value"], found[name]["note"]) == (None, "the retriever gives no scores")
    for stage in ("embed", "search", "rerank"):
        assert found[f"latency/{stage}_p50_ms"]["note"] == f"no {stage} stage ran"
    assert found["latency/total_p50_ms"]["value"] > 0
    assert found["determinism/rate"]["value"] == 1.0
    assert found["ranking/hit_rate_at_5"]["value"] == 0.75
    assert found["ranking/evidence_recall_at_5"]["value"] == pytest.approx((1 + 1 + 0.5 + 0) / 4, abs=0.13)


def test_says_what_it_is_and_what_was_not_known(run: Run) -> None:
    done = run("plain")
    assert f"python {HERE}:plain (Overlap) · top_k 5 · no threshold · candidates 100" in done.out
    assert "a retriever whose chunks cannot be listed" in done.out
    flat = " ".join(done.out.split())
    assert "Note: the retriever gives no scores: no threshold is applied" in flat
    assert "Note: the retriever's chunks cannot be listed: a returned chunk is relevant when it holds at least" in flat
    facts = report()["facts"]
    assert (facts["retriever"], facts["relevance"], facts["embedding"]) == ("Overlap", "returned", None)
    assert facts["collection"] is None
    assert report()["config"]["retriever"]["python"] == f"{HERE}:plain"
    assert set(report()["config"]["retriever"]) == {"python", "top_k", "candidates", "metadata"}


@pytest.mark.parametrize("name", ["asynchronous", "with_ids"])
def test_the_same_documents_give_the_same_scores(run: Run, name: str) -> None:
    assert run("plain").code == 0
    plain = metrics()
    assert run(name).code == 0
    assert metrics() == plain


def test_golden_data_by_ids_needs_no_list(run: Run, made: Experiment) -> None:
    made.write_golden(BY_ID)
    assert run("with_ids", "--metrics", "ranking/*,ragas/id_*").code == 0
    found = metrics("ranking/")
    assert all(metric["value"] is not None for name, metric in found.items() if not needs_more_labels(name))
    assert found["ranking/recall_at_5"]["value"] == found["ranking/ndcg_at_5"]["value"] == 1.0
    assert metrics("ragas/")["ragas/id_context_recall"]["value"] == 1.0


def test_ids_that_the_retriever_does_not_know_are_noted(run: Run, made: Experiment) -> None:
    made.write_golden(BY_ID)
    assert "none of the 1 relevant_ids was returned for any query" in " ".join(run("plain").out.split())
    assert metrics()["ranking/hit_rate_at_5"]["value"] == 0.0


def test_addresses_written_otherwise_are_noted(run: Run, made: Experiment) -> None:
    rows = json.loads(json.dumps(list(CASES)).replace("/docs/", "https://robots/docs/"))
    made.write_golden(rows)
    done = run("plain", "--sources.base-url", "https://robots/docs")
    assert "no returned chunk is from a page that evidence names" in " ".join(done.out.split())


def test_repeated_documents_are_counted_once_and_noted(run: Run) -> None:
    assert run("plain", "--retriever.top-k", "3").code == 0
    plain = metrics()
    done = run("repeating", "--retriever.top-k", "3", "--metrics", "*")
    assert "chunks were returned more than once for the same query" in " ".join(done.out.split())
    found = metrics()
    assert found["content/duplicate_rate"]["value"] > 0.3
    assert found["ranking/mrr_at_3"]["value"] == plain["ranking/mrr_at_3"]["value"]
    assert found["ranking/precision_at_3"]["value"] <= plain["ranking/precision_at_3"]["value"]


class TestListed:
    def test_a_store_gives_scores_and_its_list(self, run: Run) -> None:
        done = run("dense", "--retriever.threshold", "0.3", "--metrics", "*")
        assert (done.code, done.err) == (0, "")
        assert "robots (5 chunks)" in done.out
        assert f"python {HERE}:dense (QdrantVectorStore) · top_k 5 · threshold 0.3" in done.out
        found = metrics()
        for name in ("ranking/recall_at_5", "candidates/ndcg_at_10", "ragas/nonllm_context_recall", "scope/auroc"):
            assert found[name]["value"] is not None
        assert found["determinism/max_score_delta"]["value"] == 0.0
        facts = report()["facts"]
        assert (facts["relevance"], facts["embedding"]) == ("collection", "Counting")
        assert len(facts["collection"]["fingerprint"]) == 64
        assert all(hit["score"] >= 0.3 for query in report()["queries"] for hit in query["retrieved"])

    @pytest.mark.parametrize("name", ["sparse", "euclid", "own_way"])
    def test_a_store_that_cannot_be_searched_for_similarity_is_asked_as_a_retriever(self, run: Run, name: str) -> None:
        done = run(name)
        assert done.code == 0
        assert "no threshold is applied" in " ".join(done.out.split())
        assert metrics()["scope/auroc"]["value"] is None
        assert metrics()["ranking/ndcg_at_5"]["value"] is not None
        assert report()["queries"][0]["retrieved"][0]["score"] is None
        assert report()["queries"][0]["top_score"] is None

    def test_a_hybrid_store_is_searched_by_ours_and_says_so(self, run: Run) -> None:
        done = run("hybrid", "--retriever.threshold", "0.3", "--retriever.fusion", "rrf")
        assert (done.code, done.err) == (0, "")
        assert "searched to 100 candidates a side, fused by rrf" in " ".join(done.out.split())
        hits = [hit for query in report()["queries"] for hit in query["retrieved"]]
        assert hits and all(hit["scores"]["semantic"] >= 0.3 for hit in hits)

    def test_what_a_store_makes_is_listed_by_its_store(self, run: Run) -> None:
        assert run("as_retriever").code == 0
        assert metrics()["ranking/ndcg_at_5"]["value"] is not None
        assert metrics()["scope/auroc"]["note"] == "the retriever gives no scores"

    def test_a_named_collection_lists_the_chunks_of_a_retriever_that_reads_from_it(
        self, run: Run, made: Experiment, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Its documents carry no ids: they are found there by address and text."""
        index(made, capsys)
        assert run("plain", "--retriever.store.path", made.store, "--retriever.collection", "robots").code == 0
        found = metrics("ranking/")
        assert all(metric["value"] is not None for name, metric in found.items() if not needs_more_labels(name))
        ids = {chunk.chunk_id for chunk in chunks()}
        assert {hit["chunk_id"] for query in report()["queries"] for hit in query["retrieved"]} <= ids
        assert report()["facts"]["collection"]["name"] == "robots"

    def test_listed_and_unlisted_agree_on_what_both_can_tell(
        self, run: Run, made: Experiment, capsys: pytest.CaptureFixture[str]
    ) -> None:
        index(made, capsys)
        assert run("plain").code == 0
        unlisted = metrics()
        assert run("plain", "--retriever.store.path", made.store, "--retriever.collection", "robots").code == 0
        for name, metric in unlisted.items():
            if metric["value"] is not None:
                assert metrics()[name]["value"] == metric["value"]

    def test_one_that_reads_elsewhere_is_a_fault(
        self, run: Run, made: Experiment, capsys: pytest.CaptureFixture[str]
    ) -> None:
        index(made, capsys)
        done = run("elsewhere", "--retriever.store.path", made.store, "--retriever.collection", "robots")
        assert (done.code, done.out) == (2, "")
        assert "case 'forward': python" in done.err and "that collection 'robots' does not hold" in done.err


def test_the_export_is_the_reference(run: Run, made: Experiment) -> None:
    assert run("dense", "--export", "retriever.yaml", "--retriever.threshold", "0.2").code == 0
    exported = yaml.safe_load(Path("retriever.yaml").read_text())
    assert {name: exported[name] for name in ("python", "top_k", "threshold")} == {
        "python": f"{HERE}:dense", "top_k": 5, "threshold": 0.2,
    }  # fmt: skip
    assert set(exported) == {"python", "top_k", "threshold", "candidates", "metadata"}


def test_the_printed_configuration_loaded_again_is_the_same(
    run: Run, made: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run("plain", "--print-config")
    Path("again.yaml").write_text(printed.out)
    assert call(main, ["--config", "again.yaml", "--print-config"], capsys).out == printed.out
    assert call(main, ["--config", "again.yaml", "--quiet"], capsys) == Done(0, "", "")


def test_mlflow_shows_the_reference_and_the_class(run: Run, made: Experiment, mlflow_database: Path) -> None:
    (made.folder / "mlruns").mkdir()
    shutil.copy(mlflow_database, made.folder / "mlruns")
    assert run("plain", "--tracking.enabled", "true").code == 0
    client = MlflowClient(tracking_uri=f"sqlite:///{made.folder}/mlruns/mlflow.db")
    [experiment] = [e for e in client.search_experiments() if e.name == "retrieval-evals"]
    [logged] = client.search_runs([experiment.experiment_id])
    parameters = {k: v for k, v in logged.data.params.items() if k.startswith("retriever.")}
    assert parameters["retriever.python"] == f"{HERE}:plain"
    assert parameters["retriever.class"] == "Overlap"
    assert not any("embedding" in name or "mode" in name or "threshold" in name for name in parameters)
    assert "collection.fingerprint" not in logged.data.tags


FAULTS: Mapping[str, tuple[str, Sequence[str], Sequence[str]]] = {
    "no such module": ("x", ["--retriever.python", "no_such:make"], ["python 'no_such:make' cannot be loaded: Module"]),
    "no such factory": ("plane", [], ["found none; did you mean 'plain'"]),
    "a factory that raises": ("fail", [], ["cannot be loaded: RuntimeError, no index at"]),
    "a factory that leaves": ("leave", [], ["cannot be loaded: SystemExit, 0"]),
    "a factory that makes nothing": ("nothing", [], ["expected a LangChain BaseRetriever or a QdrantVectorStore, got"]),
    "a factory that makes another store": ("memory_store", [], ["return its as_retriever()"]),
    "no factory": ("", [], ["retriever.python: expected 'module:factory', got 'tests.support.foreign:'"]),
    "None": ("none", [], ["case 'forward': python", "returned NoneType None; expected a list of documents or texts"]),
    "a document without text": ("textless", [], ["case 'forward': python", "at place 6; expected a list of documents"]),
    "an error in the middle": ("raises_in_the_middle", [], ["case 'channel': python", "failed: ConnectionError, the"]),
    "an exit in the middle": ("leaves_in_the_middle", [], ["case 'forward': python", "failed: SystemExit, 0"]),
    "documents without pages": (
        "without_pages",
        [],
        ["evidence names a source_url, but no returned document does", "map {source_url: KEY}"],
    ),
    "settings of ours": (
        "plain",
        ["--retriever.mode", "hybrid", "--retriever.rerank", "mmr", "--retriever.filters", "a = 1"],
        ["error: mode, rerank, filters: settled by python"],
    ),
    "a threshold without scores": (
        "plain",
        ["--retriever.threshold", "0.2"],
        ["foreign:plain' gives no scores"],
    ),
    "a threshold without scale": ("own_way", ["--retriever.threshold", "0.2"], ["gives no scores"]),
    "a mode without an encoder": ("dense", ["--retriever.mode", "hybrid"], ["has no sparse vector 'bm25'"]),
    "a store without a collection": (
        "plain",
        ["--retriever.store.path", "s"],
        ["name the collection that python"],
    ),
    "a collection beside a store": ("dense", ["--retriever.collection", "robots"], ["reads 'robots'; leave it out"]),
    "a collection that is gone": ("without_collection", [], ["no collection 'robots' at :memory:"]),
    "top_k over the candidates": ("plain", ["--retriever.candidates", "3"], ["exceeds the candidate depth 3"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_nothing_written(run: Run, made: Experiment, name: str) -> None:
    factory, arguments, said = FAULTS[name]
    before = set(made.folder.rglob("*"))
    done = run(factory, *arguments)
    assert (done.code, done.out) == (2, "")
    for piece in said:
        assert piece in done.err
    assert "Traceback" not in done.err
    assert set(made.folder.rglob("*")) == before


def test_evidence_that_is_not_in_the_pages_is_listed_before_anything_is_asked(run: Run, made: Experiment) -> None:
    moved = {"source_url": "/docs/gone", "quote": FORWARD}
    made.write_golden([CASES[0], {**CASES[1], "evidence": [moved]}])
    done = run("strings")
    assert (done.code, done.out) == (2, "")
    assert "golden.jsonl:2: evidence.0: there is no page '/docs/gone'" in done.err


def test_headings_are_looked_up_in_the_pages(run: Run, made: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    made.write_golden(HEADED)
    mapped = ["--retriever.metadata.map", "{source_url: source}", "--retriever.metadata.nested-under", "info"]
    assert run("under_other_keys", *mapped).code == 0
    assert metrics()["ranking/hit_rate_at_1"]["value"] == 1.0
    made.write_config({**yaml.safe_load(made.config.read_text()), "sources": {}})
    done = run("under_other_keys", *mapped)
    assert done.code == 2
    assert "evidence names a heading, but no returned document does" in done.err


def test_a_plan_counts_its_searches(run: Run) -> None:
    done = run("plain", "--plan", "--metrics", "latency/total_*,determinism/*")
    assert (done.code, done.err) == (0, "")
    said = f"searches by python {HERE}:plain, whatever they call: 6 for candidates (this plan has made them)"
    assert said in " ".join(done.out.split())
    assert "embeddings by" not in done.out
