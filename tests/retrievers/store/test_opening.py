"""A store from its address to a collection that may be searched: places, keys, faults, TLS, local mode, checks."""

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_qdrant import QdrantVectorStore
from pydantic import ValidationError
from qdrant_client import QdrantClient, models
from syrupy.assertion import SnapshotAssertion

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig, StoreConfig
from retrievers.embedding.models import StaticEmbeddings
from retrievers.errors import StoreError
from retrievers.retriever.opened import adopt_given
from retrievers.store.checks import check_collection
from retrievers.store.collection import MANIFEST_KEY, CollectionInfo, describe, read_info
from retrievers.store.opening import embedded_folder, location, open_client
from tests.support.clock import Clock
from tests.support.collections import TableEmbeddings, embedded, fill, indexed, settings
from tests.support.loopback import HEAD, Fault, Reply, certified, drip, raw_server
from tests.support.qdrant_server import KEY, QdrantServer, Rules

TABLE = {"a": [1.0, 0.0, 0.0], "b": [0.6, 0.8, 0.0], "c": [0.0, 0.6, 0.8], "d": [0.0, 0.0, 1.0]}
DENSE = models.VectorParams(size=3, distance=models.Distance.COSINE)


def at(server: QdrantServer, **values: Any) -> RetrieverConfig:
    """Return the settings of the collection `mine` on a server, which a model of the user's own embedded."""
    own = {"model": "python:mine:make"}
    return settings(**{"store": {"url": server.url}, "collection": "mine", "embedding": own, **values})


def described(config: RetrieverConfig) -> CollectionInfo:
    with closing(open_client(config.store, {})) as client:
        return describe(client, config)


def texts(*names: str) -> list[dict[str, str]]:
    return [{"page_content": name} for name in names]


def test_a_store_is_where_it_says_or_in_the_usual_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept, here, store = tmp_path / "cache" / "retrieval-evals" / ".qdrant", Path(".qdrant"), settings().store
    written: list[Any] = [{"url": "http://h:1"}, {"path": "a/b"}, {}]
    assert [location(settings(store=one).store) for one in written] == ["http://h:1", "a/b", str(here)]
    with embedded(kept) as client:
        fill(client, "docs", [TABLE["a"]], texts("a"))
    assert (embedded_folder(store), embedded_folder(store, create=True)) == (kept, here)
    here.mkdir()
    assert [embedded_folder(store, name) for name in ("", "others", "docs")] == [here, here, kept]


def test_reading_makes_no_folder_and_indexing_may(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("none", "file"):
        with pytest.raises(StoreError, match=rf"embedded store at .*{name}"):
            open_client(settings(store={"path": str(tmp_path / name)}).store, {})
    with pytest.raises(StoreError, match=r"embedded store at .*file cannot be opened"):
        open_client(settings(store={"path": str(tmp_path / "file")}).store, {}, create=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    open_client(settings(store={"path": str(tmp_path / "new")}).store, {}, create=True).close()
    assert (tmp_path / "new" / "collections").is_dir()


@pytest.mark.slow
def test_a_server_that_drips_is_a_timeout() -> None:
    with raw_server(lambda _: drip(HEAD + b"\r\n")) as host, pytest.raises(StoreError, match="no answer in time"):
        described(settings(store={"url": f"http://{host}", "timeout_s": 1}))


def test_an_old_server_is_searched_and_not_written_to(server: QdrantServer, tmp_path: Path) -> None:
    server.keeps_metadata = False
    with pytest.raises(StoreError, match=r"keeps no collection metadata: Qdrant 1\.16"):
        indexed(tmp_path, store={"url": server.url})
    assert server.client.get_collections().collections == []
    fill(server.client, "mine", [*TABLE.values()], texts(*TABLE))
    with QdrantRetriever.open(at(server), env={}, embeddings=TableEmbeddings(TABLE)) as retriever:
        assert [c.chunk.text for c in retriever.search("b").chunks][:3] == ["b", "a", "c"]


# Faults while a collection is made (tests/faults has every fault by every client of a search)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault(reply=Reply(status=429)), Fault(torn=True)], ids=["429", "torn"])
@pytest.mark.parametrize("on", ["/collections/pages", "/pages/points", "/exists"])
def test_indexing_gets_over_faults(server: QdrantServer, tmp_path: Path, clock: Clock, fault: Fault, on: str) -> None:
    with server.failing(replace(fault, on=on, times=2)):
        info = described(indexed(tmp_path, store={"url": server.url}))
    assert len(clock.waits) == 2
    assert (info.points, info.manifest["state"]) == (9, "complete")


LIMIT = {"status": {"error": 'Limit exceeded 256 > 100 for "limit"'}}
REFUSALS = {
    "the address redirects; name the one": Reply(status=307, body=b"<html>"),
    "403 Forbidden: an HTML page, not Qdrant, answered: is a proxy between": Reply(status=403, body=b"\n<html>"),
    r"raise it \(strict_mode_config.max_query_limit\)": Reply.json(LIMIT, 403),
}


@pytest.mark.parametrize("remedy", REFUSALS)
def test_a_refusal_says_what_to_do(server: QdrantServer, remedy: str) -> None:
    with server.failing(Fault(reply=REFUSALS[remedy])), pytest.raises(StoreError, match=remedy):
        described(settings(store={"url": server.url}))


def test_chunks_are_all_listed_or_it_is_an_error(server: QdrantServer, tmp_path: Path) -> None:
    fill(server.client, "mine", [*TABLE.values()], texts(*TABLE))
    ended = Fault(reply=Reply.json({"result": {"points": [], "next_page_offset": None}}), on="/scroll")
    with QdrantRetriever.open(at(server), env={}, embeddings=TableEmbeddings(TABLE)) as retriever:
        with server.failing(ended), pytest.raises(StoreError, match="'mine' gave 0 of its 4 points; try again"):
            retriever.chunks()
        assert server.client.delete("mine", [0]) and len(retriever.chunks()) == 3, "those that are left"
    indexed(tmp_path, store={"url": server.url})
    with server.failing(ended), pytest.raises(StoreError, match="'pages' gave 0 of its 9 points"):
        indexed(tmp_path, store={"url": server.url})


def test_a_standard_variable_names_the_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    ca, context = certified(tmp_path)
    untrusted = r"certificate verify failed.* its certificate's authority in SSL_CERT_FILE\?$"
    with QdrantServer(tls=context) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        with pytest.raises(StoreError, match=untrusted):
            described(settings(store={"url": url}))
        monkeypatch.setenv("SSL_CERT_FILE", ca)
        assert url.startswith("https://") and described(indexed(tmp_path, store={"url": url})).points == 9
        with pytest.raises(StoreError, match="certificate verify failed"):
            described(settings(store={"url": server.url}))
    assert clock.waits == []


def test_http_for_https_and_the_other_way_is_told_at_once(clock: Clock) -> None:
    said = "cannot be reached .* is http:// or https:// right"
    with QdrantServer() as server, pytest.raises(StoreError, match=said):
        described(settings(store={"url": server.url.replace("http:", "https:")}))
    alert = b"\x15\x03\x01\x00\x02\x02\x46"  # by which a server says that it speaks TLS
    with raw_server(lambda _: [alert]) as host, pytest.raises(StoreError, match=said):
        described(settings(store={"url": f"http://{host}"}))
    assert clock.waits == []


TEXTS = ("An encoder counts the turns of a joint.", "A gripper holds a cup.", "Maps show where walls are.")


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a LangChain tutorial makes it."""
    folder = tmp_path_factory.mktemp("tutorial") / "db"
    metadatas = [{"source": f"docs/{at}.md", "start_index": at} for at in range(len(TEXTS))]
    where: Any = {"path": str(folder), "collection_name": "my_documents"}
    QdrantVectorStore.from_texts([*TEXTS], StaticEmbeddings(), metadatas, **where).client.close()
    return folder


def test_it_is_read_through_a_store_of_the_users_own(tutorial: Path) -> None:
    client = QdrantClient(path=str(tutorial))
    store = QdrantVectorStore(client, "my_documents", embedding=StaticEmbeddings())
    with closing(client), adopt_given(store, RetrieverConfig(), None, {})[0] as retriever:
        assert isinstance(retriever, QdrantRetriever)
        document = retriever.invoke("what counts turns?")[0]
    assert document.page_content == TEXTS[0]
    assert document.metadata.items() >= {"source": "docs/0.md", "start_index": 0}.items()


def test_a_path_unpickles_nothing(tutorial: Path, tmp_path: Path) -> None:
    folder, ran = tmp_path / "db", tmp_path / "ran"
    shutil.copytree(tutorial, folder)
    [file] = folder.rglob("storage.sqlite")
    with closing(sqlite3.connect(file)) as database, database:
        makes_a_folder = f"cos\nmkdir\n(V{ran}\ntR."  # when it is unpickled
        database.execute("UPDATE points SET point = ?", (makes_a_folder.encode(),))
    for create in (False, True):
        with pytest.raises(StoreError, match=r"whose pickles may run any code; .* name a factory of your"):
            open_client(StoreConfig.model_validate({"path": str(folder)}), {}, create=create)
    assert not ran.exists()
    with pytest.raises(ValidationError, match="read through your own QdrantVectorStore"):
        StoreConfig.model_validate({"path": f"local:{folder}"})


def test_the_vector_that_is_searched_is_the_named_or_the_only_one(server: QdrantServer) -> None:
    comparison = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    several = DENSE.model_copy(update={"multivector_config": comparison})
    two = {"dense": DENSE, "other": models.VectorParams(size=2, distance=models.Distance.DOT), "colbert": several}
    server.client.create_collection("mine", two, sparse_vectors_config={"bm25": models.SparseVectorParams()})
    info = described(at(server, vector_name="dense"))
    assert (info.dimension, info.distance, info.vectors) == (3, "cosine", {"dense": 3, "other": 2})
    assert (info.sparse_vectors, info.manifest, info.points) == ({"bm25": False}, {}, 0)
    for name in ("", "colbert"):
        with pytest.raises(StoreError, match=rf"vector '{name}': it has 'dense', 'other' \(multi-vectors are not"):
            described(at(server, vector_name=name))
    server.client.create_collection("one", {"dense": DENSE})
    assert described(at(server, collection="one")).vector_name == "dense"


def test_a_key_for_one_collection_is_enough(server: QdrantServer, tmp_path: Path) -> None:
    def read() -> CollectionInfo:
        with closing(open_client(config.store, {"QDRANT_API_KEY": f"{KEY}\n"})) as client:
            return read_info(client, config)

    config = indexed(tmp_path, store={"url": server.url}, threshold=0)
    server.rules = Rules(api_key=KEY, scope="pages", read_only=True)
    assert read().points == 9
    hybrid = config.model_copy(update={"mode": "hybrid"})
    with QdrantRetriever.open(hybrid, env={"QDRANT_API_KEY": KEY}) as retriever:
        assert retriever.search("who sends messages").status == "success"
        assert len(retriever.chunks({"source_url": ["/docs/ros2/topics"]})) == 4
    server.rules = Rules(api_key=KEY, scope="others")
    with pytest.raises(StoreError, match=r"Access to collection pages is required; the API key in \w+ may not do this"):
        read()


TRUSTED = {"trust_embedding": True}
BARE: dict[str, Any] = {"payloads": [], "vectors": []}
MODEL = {"embedding": {"provider": "python", "model": "mine:make", "options": {"device": "cpu"}, "dimension": 3}}
PREFIXED = {"embedding": {"model": "python:mine:make", "document_prefix": "p: "}}
NAMED = {
    "vectors": [{}, *({"dense": vector, "other": vector[::-1]} for vector in TABLE.values())],
    "payloads": texts("none", *TABLE),
    "params": {"dense": DENSE, "other": DENSE},
}
OTHER = {text: vector[::-1] for text, vector in TABLE.items()}
LONGER = {text: [7 * x for x in vector] for text, vector in TABLE.items()}
COLLECTIONS: dict[str, tuple[dict[str, Any], dict[str, Any], Mapping[str, list[float]]]] = {
    "the first points have no text": ({"payloads": [*[{"page_content": ""}] * 3, *texts("d")]}, {}, {"d": TABLE["d"]}),
    "none where it is trusted": ({}, TRUSTED, {}),
    "a whole one": ({"manifest": {"state": "complete"}}, {}, TABLE),
    "nothing to check the model by": (BARE, {}, TABLE),
    "texts under another key": ({"vectors": [[1, 0, 0]], "payloads": [{"text": "a"}]}, {}, TABLE),
    "an empty text": ({"vectors": [[1, 0, 0]], "payloads": [{"page_content": ""}]}, {}, TABLE),
    "an interrupted run": ({"manifest": {"state": "indexing"}}, TRUSTED, TABLE),
    "vectors of another length": ({}, {}, LONGER),
    "rounded as providers do": ({}, {}, TABLE | {"c": [0.0313, 0.6, 0.8]}),
    "one of three chunks decides": ({}, {}, TABLE | {"c": [0.0545, 0.6, 0.8]}),
    "vectors of no direction": ({}, {}, dict.fromkeys(TABLE, [0.0] * 3)),
    "of the recorded model": ({"manifest": MODEL}, {}, TABLE),
    "the recorded model gives other vectors": ({"manifest": MODEL}, {}, OTHER),
    "another prefix, of which no text is asked": ({"manifest": MODEL}, PREFIXED, {}),
    "by the named vector, which one point lacks": (NAMED, {"vector_name": "dense"}, TABLE),
    "by another vector": (NAMED, {"vector_name": "other"}, TABLE),
}


@pytest.mark.parametrize(("parts", "values", "model"), COLLECTIONS.values(), ids=COLLECTIONS)
def test_a_collection_is_accepted_or_refused(
    server: QdrantServer, parts: Any, values: Any, model: Mapping[str, list[float]], snapshot: SnapshotAssertion
) -> None:
    """A model is the collection's if it gives nearly the same vectors."""
    held = {"vectors": [*TABLE.values()], "payloads": texts(*TABLE), "params": DENSE, **parts}
    recorded = {MANIFEST_KEY: held.pop("manifest", None)}
    fill(server.client, "mine", **held, metadata=recorded if recorded[MANIFEST_KEY] else None)
    config, said = at(server, **values), "accepted"
    try:
        with closing(open_client(config.store, {})) as client:
            check_collection(client, config, TableEmbeddings(model), describe(client, config))
    except StoreError as error:
        said = str(error).replace(server.url, "SERVER")
    assert said == snapshot
