"""`evals.run` on retrievers of the user's own: what is scored, what is not and why, and every fault they can have."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from evals.run import main
from retrievers import QdrantRetriever
from retrievers.errors import ConfigError
from tests.support.command import Done
from tests.support.experiment import SETTINGS, Experiment, load_report, make_experiment
from tests.support.foreign import HERE, chunks

Run = Callable[..., Done]
NEVER_SCORED = "ranking/expected_top3_in_5"  # no case of these golden data has three relevant chunks


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    made = make_experiment(tmp_path / "work")
    made.write_config({k: v for k, v in SETTINGS.items() if k not in ("retriever", "index")})
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def run(made: Experiment, command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "160")
    flags = ["--config", made.config, "--output", "report.json", "--retriever.python"]
    return lambda name, *more: command(main, *flags, f"{HERE}:{name}", *more)


report = partial(load_report, Path("report.json"))


def metrics(prefix: str = "") -> Mapping[str, Any]:
    return {name: metric for name, metric in report()["metrics"].items() if name.startswith(prefix)}


def hits() -> Sequence[Mapping[str, Any]]:
    return [hit for query in report()["queries"] for hit in query["retrieved"]]


def flat(done: Done) -> str:
    return " ".join(done.out.split())


def test_of_a_retriever_without_list_or_scores_is_told_what_is_unknown(run: Run, snapshot: SnapshotAssertion) -> None:
    done = run("plain", "--metrics", "*", "--verbose", "--html", "a.html")
    assert (done.code, done.err) == (0, "")
    made, found = report(), metrics()
    figures = {
        name: "some" if name.startswith("latency/total") else f"{one['value']} of {one['n']}: {one['note']}"
        for name, one in found.items()
    }
    facts = {name: made["facts"][name] for name in ("retriever", "embedding", "collection")}
    assert (figures, facts, (made["config"]["retriever"], made["settings"], made["notes"])) == snapshot
    assert "a retriever whose chunks cannot be listed" in done.out and "Next: " not in done.out, "it has its page"


def test_a_store_gives_scores_and_its_list_and_is_exported_by_its_reference(run: Run) -> None:
    done = run("dense", "--retriever.threshold", "0.3", "--metrics", "*", "--export", "retriever.yaml")
    assert (done.code, done.err) == (0, "")
    assert f"python {HERE}:dense (QdrantVectorStore) · top_k 5 · threshold 0.3" in done.out
    found = metrics()
    for name in ("ranking/recall_at_5", "candidates/ndcg_at_10", "ragas/nonllm_context_recall", "scope/auroc"):
        assert found[name]["value"] is not None
    assert found["determinism/max_score_delta"]["value"] == 0.0
    facts = report()["facts"]
    assert (facts["embedding"], facts["collection"]["points"]) == ("Counting", 5)
    assert len(facts["collection"]["fingerprint"]) == 64 and min(hit["score"] for hit in hits()) >= 0.3
    exported = yaml.safe_load(Path("retriever.yaml").read_text())
    assert {"python": f"{HERE}:dense", "top_k": 5, "threshold": 0.3}.items() <= exported.items()
    assert set(exported) == {"python", "mode", "top_k", "threshold", "candidates", "metadata"}
    with QdrantRetriever.from_config("retriever.yaml", env={}) as retriever:
        row = report()["queries"][0]
        served = [hit.chunk.chunk_id for hit in retriever.search(row["query"]).chunks]
        assert served == [hit["chunk_id"] for hit in row["retrieved"]]
    Path("other.yaml").write_text(yaml.safe_dump({"python": f"{HERE}:as_retriever"}))
    with pytest.raises(ConfigError, match="makes no QdrantVectorStore"):
        QdrantRetriever.from_config("other.yaml", env={})


@pytest.mark.parametrize("name", ["sparse", "euclid", "own_way", "as_retriever"])
def test_a_store_that_cannot_be_searched_for_similarity_is_asked_as_a_retriever(run: Run, name: str) -> None:
    done = run(name)
    assert done.code == 0 and "no threshold is applied" in flat(done)
    assert metrics()["scope/auroc"]["note"] == "no similarities are read from the retriever"
    assert metrics()["ranking/ndcg_at_5"]["value"] is not None
    first = report()["queries"][0]
    assert (first["retrieved"][0]["score"], first["top_score"]) == (None, None)


def test_a_hybrid_store_is_searched_by_ours_and_says_so(run: Run) -> None:
    done = run("hybrid", "--retriever.threshold", "0.3", "--retriever.fusion", "rrf")
    assert (done.code, done.err) == (0, "")
    grid = done.out.partition(" --sweep.mode ")[2].splitlines()[0].split()
    assert grid[:2] == ["semantic,hybrid", "--sweep.top-k"] and run("hybrid", "--sweep.mode", *grid).code == 0
    assert "searched to 100 candidates a side, fused by rrf" in flat(done)
    assert min(hit["scores"]["semantic"] for hit in hits()) >= 0.3


@pytest.mark.parametrize("name", ["plain", "with_ids"])
def test_a_named_collection_lists_the_chunks_of_its_retriever(run: Run, indexed: Experiment, name: str) -> None:
    collection = "--retriever.store.path", indexed.store, "--retriever.collection", "robots"
    assert run(name).code == 0
    unlisted = metrics()
    assert run(name, *collection).code == 0
    found = metrics()
    assert [name for name, one in metrics("ranking/").items() if one["value"] is None] == [NEVER_SCORED]
    known = {name: one["value"] for name, one in unlisted.items() if one["value"] is not None}
    assert {name: found[name]["value"] for name in known} == known
    assert {hit["chunk_id"] for hit in hits()} <= {chunk.chunk_id for chunk in chunks()}
    assert report()["facts"]["collection"]["name"] == "robots"
    for other, fault in (("elsewhere", "does not hold"), ("extracting", "holds with more text")):
        done = run(other, *collection)
        assert (done.code, done.out) == (2, "")
        assert "case 'forward': python" in done.err and f"that collection 'robots' {fault}" in done.err


FAULTS = (
    "x --retriever.python no_such:make", "plane", "fail", "leave", "not_a_factory", "words", "nothing", "a_class",
    "ours", "memory_store", "''", "none", "textless", "raises_in_the_middle", "leaves_in_the_middle", "without_pages",
    "without_collection", "plain --retriever.mode hybrid --retriever.rerank mmr --retriever.filters 'a = 1'",
    "plain --retriever.threshold 0.2", "own_way --retriever.threshold 0.2", "dense --retriever.mode hybrid",
    "plain --retriever.store.path s", "dense --retriever.collection robots",
    "as_retriever --retriever.collection robots", "plain --retriever.candidates 3",
)  # fmt: skip


@pytest.mark.parametrize("given", FAULTS)
def test_a_fault_is_named_writing_nothing(run: Run, made: Experiment, given: str, snapshot: SnapshotAssertion) -> None:
    before = set(made.folder.rglob("*"))
    done = run(*shlex.split(given))
    assert (done.code, done.out) == (2, "")
    assert done.err.replace(str(made.folder), "here") == snapshot
    assert "Traceback" not in done.err and set(made.folder.rglob("*")) == before


def test_a_plan_counts_its_searches(run: Run) -> None:
    done = run("plain", "--plan", "--metrics", "latency/total_*,determinism/*")
    assert (done.code, done.err) == (0, "") and "embeddings by" not in done.out
    assert f"searches by python {HERE}:plain, whatever they call 6 for candidates" in flat(done)
