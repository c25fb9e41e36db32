"""A part of a collection that counts as the whole: whatever is asked, nothing of another tenant is seen."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from qdrant_client import QdrantClient, models

from evals import Experiment, evaluate
from evals.experiment.output_files import Outputs
from evals.golden.command import main as golden
from retrievers.__main__ import main
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.errors import CollectionStateError, ConfigError
from retrievers.retriever.qdrant import QdrantRetriever
from tests.support.collections import embedded, settings
from tests.support.qdrant_server import QdrantServer

SECRET = "zebra"
ACME = ("Press the red button to stop the arm.", "The battery lasts for eight hours.", "Calibrate the camera first.")
OTHER = tuple(f"{SECRET}: {text}" for text in (*ACME, "Nobody else may read this."))
GOLDEN = [
    {"id": "q1", "query": "stop the arm", "relevant_ids": {"acme-0": 1}},
    {"id": "q2", "query": SECRET, "in_scope": False},
]


def fill(client: QdrantClient) -> None:
    """Make a collection of two tenants, the points of one with whole numbers and of the other with UUIDs as ids."""
    from retrievers.config import EmbeddingConfig
    from retrievers.embedding.models import make_embeddings

    model = make_embeddings(EmbeddingConfig.model_validate({}), {})
    client.create_collection(
        "shared",
        vectors_config=models.VectorParams(size=256, distance=models.Distance.COSINE),
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    points = [
        models.PointStruct(
            id=number if tenant == "acme" else str(UUID(int=number)),
            vector={"": vector, "bm25": Bm25Encoder().document(text)},
            payload={
                "page_content": text,
                "metadata": {"tenant": tenant, "chunk_id": f"{tenant}-{number}", "source_url": f"/{tenant}/{number}"},
            },
        )
        for tenant, texts in (("globex", OTHER), ("acme", ACME))
        for number, (text, vector) in enumerate(zip(texts, model.embed_documents(list(texts)), strict=True))
    ]
    client.upsert("shared", points)


@pytest.fixture(params=["edge", "server", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    if request.param == "server":
        with QdrantServer() as server:
            fill(server.client)
            yield {"url": server.url}
    elif request.param == "edge":
        with embedded(tmp_path / "store") as client:
            fill(client)
        yield {"path": str(tmp_path / "store")}
    else:
        local = QdrantClient(path=str(tmp_path / "store"))
        fill(local)
        local.close()
        yield {"path": f"local:{tmp_path / 'store'}"}


def flags(store: dict[str, Any]) -> list[str]:
    [(kind, place)] = store.items()
    return [f"--store.{kind}", place, "--collection", "shared", "--within", "tenant = acme"]


@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
@pytest.mark.parametrize("within", [{"tenant": "acme"}, "tenant = acme"])
def test_every_search_keeps_to_the_part(store: dict[str, Any], mode: str, within: Any) -> None:
    config = settings(store=store, collection="shared", mode=mode, within=within, threshold=0)
    with QdrantRetriever.open(config) as retriever:
        assert retriever.info.points == len(ACME)
        for query in (f"{SECRET} arm", "battery", f"{SECRET} nobody may read"):
            found = list(retriever.candidates([query])[0])
            session = retriever.search(query)
            assert {hit.chunk.chunk_id.partition("-")[0] for hit in (*found, *session.chunks)} <= {"acme"}
            assert mode == "keyword" or len(found) == len(ACME)
        assert [chunk.chunk_id for chunk in retriever.chunks()] == ["acme-0", "acme-1", "acme-2"]
        assert retriever.chunks({"chunk_id": ["globex-0"]}) == []
        assert retriever.chunks({"point_id": [str(UUID(int=1))]}) == []
        assert len(retriever.sample(100)) == len(ACME)
        assert retriever.survey()[0].points == len(ACME)


def test_filters_are_within_the_part(store: dict[str, Any]) -> None:
    config = settings(store=store, collection="shared", within={"tenant": "acme"}, threshold=0)
    for filters in ("tenant = globex", "source_url = /globex/1 or source_url = /acme/1"):
        with QdrantRetriever.open(config.model_copy(update={"filters": filters})) as retriever:
            assert {hit.chunk.chunk_id for hit in retriever.search("battery").chunks} <= {"acme-1"}


@pytest.mark.slow
def test_no_report_page_or_saved_file_holds_anything_of_another(store: dict[str, Any], tmp_path: Path) -> None:
    retriever = {"store": store, "collection": "shared", "within": {"tenant": "acme"}, "mode": "hybrid", "threshold": 0}
    outputs = Outputs(report=tmp_path / "r.json", html=tmp_path / "r.html", retrieval=tmp_path / "saved")
    run = evaluate(golden=GOLDEN, experiment=Experiment.model_validate({"retriever": retriever}), outputs=outputs)
    assert run.report.facts.collection is not None
    assert run.report.facts.collection.points == len(ACME)
    assert [hit.chunk_id for row in run.report.queries for hit in row.retrieved if "globex" in hit.chunk_id] == []
    for file in (path for path in tmp_path.rglob("*") if path.is_file() and "store" not in path.parts):
        content = file.read_bytes().replace(b'"query": "zebra"', b"").decode("utf-8", "replace")
        assert "globex" not in content, file
        assert f"{SECRET}:" not in content, file


def test_commands_show_the_part_alone(
    store: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", *flags(store), "--json"])
    audit = json.loads(capsys.readouterr().out)
    assert main(["inspect", *flags(store)]) == 0
    inspected = capsys.readouterr().out
    assert main(["search", SECRET, *flags(store), "--threshold", "0"]) == 0
    searched = capsys.readouterr().out
    drafted = tmp_path / "golden.jsonl"
    assert golden(["init", *flags(store), "--out", str(drafted)]) == 0
    shown = "".join((json.dumps(audit), inspected, searched, drafted.read_text(encoding="utf-8")))
    assert "globex" not in shown
    assert f"{SECRET}:" not in shown
    assert "Points       3\n" in inspected


def test_a_part_without_points_is_refused(store: dict[str, Any]) -> None:
    for within, error, said in (
        ({"tenant": "initech"}, CollectionStateError, "no point of collection 'shared' is within"),
        ({"tenand": "acme"}, ConfigError, "within: the collection's payload has no field 'tenand'; did you mean"),
        ({"tenant": 5}, ConfigError, "within: tenant"),
    ):
        with pytest.raises(error, match=said):
            QdrantRetriever.open(settings(store=store, collection="shared", within=within))


def test_indexing_writes_no_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.md").write_text("# One\n\nA page.\n", encoding="utf-8")
    code = main(["index", str(tmp_path), "--store.path", str(tmp_path / "db"), "--within", "tenant = acme"])
    assert (code, "within names a part of a collection, and indexing writes the whole" in capsys.readouterr().err) == (
        2,
        True,
    )
