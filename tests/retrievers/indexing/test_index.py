"""Pages to a collection in the real embedded store: only what changed, all of it, or nothing."""

import hashlib
import math
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from retrievers import QdrantRetriever
from retrievers.config import IndexSettings, RetrieverConfig, StoreConfig
from retrievers.config.indexing import DEFAULTS
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.models import CheckedEmbeddings
from retrievers.embedding.tokens import count_tokens
from retrievers.errors import (
    CollectionNotFoundError,
    ConfigError,
    EmbeddingError,
    IndexingError,
    StoreError,
)
from retrievers.indexing.chunking import CHUNKING_VERSION
from retrievers.indexing.index import EMBED_BATCH, IndexOptions, IndexReport, index_corpus
from retrievers.indexing.pages import read_corpus
from retrievers.store import MANIFEST_KEY, open_client
from tests.support.bm25 import BruteForceBm25
from tests.support.indexing import KILL_AT, HashEmbeddings, content, manifest, settings, write_pages
from tests.support.linked_store import store_like
from tests.support.qdrant_server import QdrantServer
from tests.support.writable import writable

ROOT = Path(__file__).parents[3]
PAGES = {
    "one/alpha.md": (
        "---\ntitle: Alpha\ntags: [a, b]\nsidebar_position: 1\n---\n\n# Alpha\n\nAlpha text.\n\n## Sub\n\nSub text.\n"
    ),
    "one/beta.mdx": "# Beta\n\nBeta text.\n",
    "two.md": "Two text.\n\n## More\n\nMore text.\n",
}
CHUNKS = 5


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", PAGES)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[QdrantClient]:
    opened = writable(settings(tmp_path / "store").store)
    yield opened
    opened.close()


class Indexer:
    """Indexes the docs folder into one client with counting embeddings."""

    def __init__(self, client: QdrantClient, docs: Path, always: Mapping[str, Any] | None = None) -> None:
        self.client = client
        self.docs = docs
        self.embeddings = HashEmbeddings()
        self.always = always or {}

    def config(self, changes: Mapping[str, Any] | None = None) -> RetrieverConfig:
        changes = {**self.always, **(changes or {})}
        return settings(changes.pop("store", self.docs.parent / "store"), **changes)

    def __call__(self, *, changes: dict[str, Any] | None = None, **options: Any) -> IndexReport:
        self.embeddings = options.pop("embeddings", None) or HashEmbeddings()
        progress = options.pop("progress", lambda stage, done, total: None)
        named = {name: options.pop(name) for name in IndexSettings.model_fields if name in options}
        if not self.client.collection_exists(self.config(changes).collection):
            named.setdefault("context", "none")
        how = IndexOptions(settings=IndexSettings.model_validate(named), **options)
        corpus = read_corpus(self.docs)
        return index_corpus(self.client, self.config(changes), self.embeddings, corpus, how, progress)

    @property
    def state(self) -> tuple[Any, Any]:
        return content(self.client), manifest(self.client)

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.docs / name
        source = file.read_text(encoding="utf-8")
        assert old in source
        file.write_text(source.replace(old, new), encoding="utf-8")


@pytest.fixture
def index(client: QdrantClient, docs: Path) -> Indexer:
    return Indexer(client, docs)


@pytest.fixture
def indexed(tmp_path: Path, docs: Path) -> Iterator[Indexer]:
    """An indexer after its first run."""
    store = tmp_path / "store"

    def first_run() -> None:
        with closing(writable(settings(store).store)) as made:
            assert Indexer(made, docs)().added == CHUNKS

    store_like("test_index", store, first_run)
    opened = writable(settings(store).store)
    yield Indexer(opened, docs)
    opened.close()


class TestFirstRun:
    def test_embeds_and_stores_every_chunk(self, index: Indexer) -> None:
        report = index()
        assert report == IndexReport(pages=3, chunks=CHUNKS, added=CHUNKS, refreshed=0, removed=0, unchanged=0)
        assert sorted(index.embeddings.embedded) == sorted(p["page_content"] for p, _ in content(index.client).values())
        assert len(index.embeddings.embedded) == CHUNKS

    def test_payload_holds_every_field_with_its_type(self, indexed: Indexer) -> None:
        stored = content(indexed.client)
        (point,) = [key for key, (payload, _) in stored.items() if payload["page_content"] == "## Sub\n\nSub text."]
        payload, vector = stored[point]
        assert set(payload) == {"page_content", "metadata"}
        metadata = payload["metadata"]
        chunk_id = metadata.pop("chunk_id")
        assert isinstance(chunk_id, str) and len(chunk_id) == 32
        assert point == str(uuid.uuid5(uuid.NAMESPACE_URL, chunk_id))
        assert metadata == {
            "source_url": "/docs/one/alpha",
            "title": "Alpha",
            "section_path": "Alpha > Sub",
            "heading": "Sub",
            "chunk_index": 1,
            "total_chunks": 2,
            "source_document_id": "one/alpha",
            "content_hash": hashlib.sha256(b"## Sub\n\nSub text.").hexdigest(),
            "module": "one",
            "chapter": "alpha",
            "tags": ["a", "b"],
            "sidebar_position": 1,
            "chunk_token_count": count_tokens("## Sub\n\nSub text."),
            "file_path": "one/alpha.md",
            "start_line": 11,
            "end_line": 13,
            "chunk_text_preview": "## Sub Sub text.",
        }
        types = {name: type(value) for name, value in metadata.items()}
        whole = ("chunk_index", "total_chunks", "chunk_token_count", "start_line", "end_line", "sidebar_position")
        assert {name for name, kind in types.items() if kind is int} == set(whole)
        assert len(vector) == 8

    def test_a_page_without_position_has_no_such_field(self, indexed: Indexer) -> None:
        found = [
            p["metadata"] for p, _ in content(indexed.client).values() if p["metadata"]["source_url"] == "/docs/two"
        ]
        assert len(found) == 2
        assert all("sidebar_position" not in metadata and metadata["tags"] == [] for metadata in found)

    def test_preview_is_the_first_200_characters_on_one_line(self, index: Indexer) -> None:
        write_pages(index.docs, {"long.md": "word \n" * 60})
        index()
        (preview,) = [
            p["metadata"]["chunk_text_preview"]
            for p, _ in content(index.client).values()
            if p["metadata"]["source_url"] == "/docs/long"
        ]
        assert preview == ("word " * 40)

    def test_manifest_records_model_pages_and_state(self, index: Indexer) -> None:
        index(max_tokens=64)
        assert manifest(index.client) == {
            "embedding": {"provider": "python", "model": "tests.support.indexing:make_embeddings", "dimension": 8},
            "pages_fingerprint": read_corpus(index.docs).fingerprint,
            "index": {"context": "none", "splitter": "sections", "max_tokens": 64, "overlap": 0, "merge_small": False},
            "chunking": CHUNKING_VERSION,
            "bm25": {"language": "english", "average_length": 2.4},
            "payload": {"text_key": "page_content", "nested_under": "metadata", "map": {}},
            "skipped": [],
            "points": index.client.count("pages").count,
            "state": "complete",
        }
        params: Any = index.client.get_collection("pages").config.params.vectors
        assert (params.size, params.distance) == (8, models.Distance.COSINE)

    def test_a_name_that_no_folder_can_have_is_refused_before_anything_is_embedded(self, index: Indexer) -> None:
        with pytest.raises(StoreError, match="of 100 characters: expected 1 to 200"):
            index(changes={"collection": "ö" * 100})
        assert index.embeddings.embedded == []

    def test_the_budget_is_kept(self, index: Indexer) -> None:
        write_pages(index.docs, {"long.md": "Some words in a sentence. " * 40})
        index(max_tokens=32)
        counts = [p["metadata"]["chunk_token_count"] for p, _ in content(index.client).values()]
        assert max(counts) <= 32 < sum(counts)

    def test_equal_texts_are_embedded_once_and_stored_each(self, index: Indexer) -> None:
        write_pages(index.docs, {"x.md": "Same words.", "y.md": "Same words."})
        assert index().added == CHUNKS + 2
        assert index.embeddings.embedded.count("Same words.") == 1

    def test_progress_counts_up_to_the_whole(self, index: Indexer) -> None:
        seen: list[tuple[str, int, int]] = []
        write_pages(index.docs, {"many.md": "".join(f"# H{i}\n\ntext {i}\n\n" for i in range(300))})
        index(progress=lambda stage, done, total: seen.append((stage, done, total)))
        total = CHUNKS + 300
        assert seen == [
            *(("embedding", min(done, total), total) for done in range(EMBED_BATCH, total + EMBED_BATCH, EMBED_BATCH)),
            ("writing", 256, total),
            ("writing", total, total),
        ]

    def test_a_named_vector_is_made_under_its_name(self, index: Indexer, tmp_path: Path) -> None:
        changes = {"vector_name": "dense"}
        assert index(changes=changes).added == CHUNKS
        assert list(index.client.get_collection("pages").config.params.vectors or []) == ["dense"]
        assert index(changes=changes).unchanged == CHUNKS
        index.client.close()
        config = settings(tmp_path / "store", **changes, threshold=0)
        with QdrantRetriever.open(config, env={}, embeddings=HashEmbeddings()) as retriever:
            assert retriever.search("Two text.").chunks[0].chunk.text == "Two text."


class TestSecondRun:
    def test_embeds_nothing_and_writes_nothing(self, indexed: Indexer, tmp_path: Path) -> None:

        def files() -> dict[Path, tuple[bytes, int]]:
            found = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
            return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in found}

        state, on_disk = indexed.state, files()
        report = indexed()
        assert report == IndexReport(pages=3, chunks=CHUNKS, added=0, refreshed=0, removed=0, unchanged=CHUNKS)
        assert indexed.embeddings.embedded == []
        assert (indexed.state, files()) == (state, on_disk)

    def test_in_another_process_finds_the_same(self, indexed: Indexer, tmp_path: Path) -> None:
        state = indexed.state
        indexed.client.close()
        indexed.client = writable(settings(tmp_path / "store").store)
        try:
            assert indexed.state == state
            assert indexed().unchanged == CHUNKS
        finally:
            indexed.client.close()

    def test_a_changed_section_embeds_only_its_own_chunk(self, indexed: Indexer) -> None:
        indexed.edit("one/alpha.md", "Sub text.", "Other text.")
        report = indexed()
        assert indexed.embeddings.embedded == ["## Sub\n\nOther text."]
        assert (report.added, report.refreshed, report.removed, report.unchanged) == (1, 0, 1, CHUNKS - 1)
        assert len(content(indexed.client)) == CHUNKS

    def test_moved_lines_refresh_the_payload_without_embedding(self, indexed: Indexer) -> None:
        before = content(indexed.client)
        indexed.edit("one/alpha.md", "Alpha text.\n", "Alpha text.\n\n\n\n")
        report = indexed()
        assert indexed.embeddings.embedded == []
        assert (report.added, report.refreshed, report.removed) == (0, 1, 0)
        after = content(indexed.client)
        (moved,) = [key for key in after if after[key] != before[key]]
        old, new = before[moved][0]["metadata"], after[moved][0]["metadata"]
        assert (new["start_line"], new["end_line"]) == (old["start_line"] + 3, old["end_line"] + 3)
        assert after[moved][1] == before[moved][1]
        assert after[moved][0]["page_content"] == "## Sub\n\nSub text."

    def test_a_new_title_refreshes_the_chunks_of_its_page(self, indexed: Indexer) -> None:
        indexed.edit("one/alpha.md", "sidebar_position: 1\n", "")
        assert (indexed().refreshed, indexed.embeddings.embedded) == (2, [])
        assert not any("sidebar_position" in payload["metadata"] for payload, _ in content(indexed.client).values())

    def test_a_removed_page_takes_its_chunks_along(self, indexed: Indexer) -> None:
        (indexed.docs / "two.md").unlink()
        assert indexed().removed == 2
        assert {p["metadata"]["source_url"] for p, _ in content(indexed.client).values()} == {
            "/docs/one/alpha",
            "/docs/one/beta",
        }

    def test_a_new_page_embeds_only_itself(self, indexed: Indexer) -> None:
        write_pages(indexed.docs, {"one/aaa.md": "First of all."})
        assert indexed().added == 1
        assert indexed.embeddings.embedded == ["First of all."]

    def test_an_edit_of_bytes_that_are_no_text_updates_the_record_alone(self, indexed: Indexer) -> None:
        before, recorded = indexed.state
        indexed.edit("two.md", "More text.\n", "More text.\n\n\n")
        report = indexed()
        assert (report.added, report.refreshed, report.removed) == (0, 0, 0)
        assert content(indexed.client) == before
        assert manifest(indexed.client)["pages_fingerprint"] != recorded["pages_fingerprint"]

    def test_a_new_title_embeds_the_chunks_that_have_it_as_context(self, index: Indexer) -> None:
        index(context="title")
        index.edit("one/alpha.md", "title: Alpha", "title: Omega")
        report = index()
        assert index.embeddings.embedded == ["Omega\n\n# Alpha\n\nAlpha text.", "Omega\n\n## Sub\n\nSub text."]
        assert (report.added, report.refreshed, report.removed, report.unchanged) == (2, 0, 0, CHUNKS - 2)
        assert len(content(index.client)) == CHUNKS

    @pytest.mark.parametrize(
        "change",
        [
            {"context": "path"},
            pytest.param({"max_tokens": 16}, marks=pytest.mark.slow),
            pytest.param({"overlap": 8}, marks=pytest.mark.slow),
        ],
    )
    def test_other_settings_make_the_whole_collection_again(self, index: Indexer, change: dict[str, Any]) -> None:
        index(context="title")
        before = index.state
        (name, value), *_ = change.items()
        with pytest.raises(StoreError, match=rf"with index\.{name} .*, not {value!r}; .*--replace"):
            index(**change)
        assert index.state == before
        assert index(**change, replace=True).added == CHUNKS
        assert manifest(index.client)["index"] == {**DEFAULTS, "context": "title", **change}

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ({"splitter": "recursive", "max_tokens": 32}, {"splitter": "whole"}),
            ({}, {"splitter": "recursive", "max_tokens": 16, "overlap": 5}),
        ],
    )
    def test_another_splitter_is_refused_and_replaces_all(
        self, index: Indexer, first: dict[str, Any], second: dict[str, Any]
    ) -> None:
        index(**first)
        recorded = manifest(index.client)["index"]
        assert index().unchanged == len(content(index.client))
        assert manifest(index.client)["index"] == recorded
        with pytest.raises(StoreError, match=r"was indexed with index\.splitter .*--replace"):
            index(**second)
        index(replace=True, **second)
        assert {**manifest(index.client)["index"], **second} == manifest(index.client)["index"]

    @pytest.mark.parametrize(
        ("named", "message"),
        [
            ({"splitter": "whole", "overlap": 9}, "index.overlap does nothing under index.splitter whole"),
            ({"splitter": "recursive", "merge_small": True}, "index.merge_small does nothing under index.splitter rec"),
        ],
    )
    def test_a_setting_that_would_do_nothing_is_refused(
        self, index: Indexer, named: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            index(**named)

    def test_settings_that_are_not_named_are_the_recorded_ones(self, index: Indexer) -> None:
        index(context="path", max_tokens=64)
        before = index.state
        assert index().unchanged == CHUNKS
        assert index.state == before

    def test_a_record_of_an_earlier_version_has_no_context(self, indexed: Indexer) -> None:
        earlier = {**{k: v for k, v in manifest(indexed.client).items() if k != "index"}, "max_tokens": 256}
        indexed.client.update_collection("pages", metadata={MANIFEST_KEY: earlier})
        assert indexed().unchanged == CHUNKS
        assert manifest(indexed.client)["index"] == DEFAULTS

    @pytest.mark.slow
    def test_any_run_ends_where_a_fresh_one_does(self, indexed: Indexer, tmp_path: Path) -> None:
        indexed.edit("one/alpha.md", "Alpha text.", "\n\nChanged text.\n\n## New\n\nNew text.")
        (indexed.docs / "one/beta.mdx").unlink()
        write_pages(indexed.docs, {"three.md": "Three."})
        indexed()
        fresh = writable(StoreConfig(path=tmp_path / "fresh"))
        try:
            options = IndexOptions(settings=IndexSettings(context="none"))
            index_corpus(fresh, settings(tmp_path / "fresh"), HashEmbeddings(), read_corpus(indexed.docs), options)
            assert indexed.state == (content(fresh), manifest(fresh))
        finally:
            fresh.close()


class TestContext:
    def test_it_is_embedded_and_indexed_and_stored_apart_from_the_text(self, index: Indexer) -> None:
        index(context="path")
        points = {p["metadata"]["chunk_context"]: (p, v) for p, v in content(index.client).values()}
        assert set(points) == {"Alpha", "Alpha > Sub", "Beta", "two", "two > More"}
        payload, vector = points["Alpha > Sub"]
        assert payload["page_content"] == "## Sub\n\nSub text."
        indexed = "Alpha > Sub\n\n## Sub\n\nSub text."
        raw = HashEmbeddings().embed_query(indexed)
        assert vector == pytest.approx([value / math.hypot(*raw) for value in raw], abs=1e-5)
        encoder = Bm25Encoder("english", 2.4)
        weights = encoder.document(indexed)
        expected = {i: round(v, 5) for i, v in zip(weights.indices, weights.values, strict=True)}
        assert TestKeywordSide.terms(index.client)["## Sub\n\nSub text."] == expected

    def test_none_is_stored_without_one(self, index: Indexer) -> None:
        index(context="none")
        assert not any("chunk_context" in payload["metadata"] for payload, _ in content(index.client).values())

    def test_a_cross_encoder_reads_it(self, index: Indexer, tmp_path: Path) -> None:
        index(context="title")
        index.client.close()
        scorer = {"provider": "python", "model": "tests.support.rerankers:Scorer"}
        config = settings(tmp_path / "store", threshold=0, rerank="cross-encoder", cross_encoder=scorer)
        with QdrantRetriever.open(config, env={}, embeddings=HashEmbeddings()) as retriever:
            best = retriever.search("alpha sub").chunks[0]
        assert (best.chunk.text, best.score) == ("## Sub\n\nSub text.", 1.0), "the title stands in its context alone"

    def test_the_average_length_is_that_of_what_is_indexed(self, index: Indexer) -> None:
        index(context="title", changes={"keyword": {}})
        counter = Bm25Encoder("english")
        texts = index.embeddings.embedded
        assert all(text.startswith(("Alpha\n", "Beta\n", "two\n")) for text in texts)
        average = sum(counter.length(text) for text in texts) / CHUNKS
        assert manifest(index.client)["bm25"]["average_length"] == round(average, 3)


class TestKeywordSide:
    @staticmethod
    def terms(client: QdrantClient, name: str = "bm25") -> dict[str, dict[int, float]]:
        """Text to the term weights that are stored for it."""
        records, _ = client.scroll("pages", limit=1000, with_payload=True, with_vectors=True)
        found: dict[str, dict[int, float]] = {}
        for record in records:
            vectors: Any = record.vector
            sparse = vectors.get(name) if isinstance(vectors, dict) else None
            pairs = zip(sparse.indices, sparse.values, strict=True) if sparse else ()
            found[(record.payload or {})["page_content"]] = {index: round(value, 5) for index, value in pairs}
        return found

    @staticmethod
    def expected(texts: Iterable[str], average: float, language: str = "english") -> dict[str, dict[int, float]]:
        encoder = Bm25Encoder(language, average)
        weights = {text: encoder.document(text) for text in texts}
        return {t: {i: round(v, 5) for i, v in zip(w.indices, w.values, strict=True)} for t, w in weights.items()}

    def test_every_chunk_has_its_term_weights(self, indexed: Indexer) -> None:
        found = self.terms(indexed.client)
        assert len(found) == CHUNKS
        assert found == self.expected(found, 2.4)
        params = (indexed.client.get_collection("pages").config.params.sparse_vectors or {})["bm25"]
        assert params.modifier == models.Modifier.IDF

    def test_the_average_length_is_measured_when_the_collection_is_made_and_kept(self, index: Indexer) -> None:
        index(changes={"keyword": {}})
        first = self.terms(index.client)
        counter = BruteForceBm25({}, 1)
        average = round(sum(len(counter.terms(text)) for text in first) / CHUNKS, 3)
        assert manifest(index.client)["bm25"] == {"language": "english", "average_length": average}
        index.edit("two.md", "More text.", "More text about robots, sensors, joints, links and frames.")
        assert index(changes={"keyword": {"average_length": 99}}).added == 1
        assert manifest(index.client)["bm25"]["average_length"] == average
        found = self.terms(index.client)
        assert found == self.expected(found, average)

    def test_a_chunk_without_terms_has_none(self, index: Indexer) -> None:
        write_pages(index.docs, {"stop.md": "the and of 🤖\n"})
        assert index(changes={"keyword": {}}).added == CHUNKS + 1
        assert self.terms(index.client)["the and of 🤖"] == {}

    def test_pages_without_terms_at_all_are_indexed(self, tmp_path: Path, client: QdrantClient) -> None:
        index = Indexer(client, write_pages(tmp_path / "docs", {"stop.md": "the and of 🤖\n"}))
        index(changes={"keyword": {}})
        assert manifest(client)["bm25"]["average_length"] == 1.0

    def test_a_refreshed_chunk_keeps_its_term_weights(self, indexed: Indexer) -> None:
        before = self.terms(indexed.client)
        indexed.edit("one/alpha.md", "title: Alpha", "title: Omega")
        assert indexed().refreshed == 2
        assert self.terms(indexed.client) == before

    def test_another_language_has_its_own_terms(self, index: Indexer) -> None:
        changes = {"keyword": {"language": "german", "average_length": 2.4}}
        index(changes=changes)
        found = self.terms(index.client)
        assert found == self.expected(found, 2.4, "german")
        assert manifest(index.client)["bm25"]["language"] == "german"
        assert index(changes=changes).unchanged == CHUNKS

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            pytest.param(
                {"keyword": {"language": "german"}},
                "was tokenised as english, not german; index it again with --replace",
                marks=pytest.mark.slow,
            ),
            (
                {"keyword": {"vector_name": "terms"}},
                "has no sparse vector 'terms': it was made by an earlier version, or under another "
                "keyword.vector_name; index it again with --replace",
            ),
        ],
    )
    def test_what_cannot_be_brought_up_to_date_is_refused_and_replaced_on_request(
        self, indexed: Indexer, changes: dict[str, Any], said: str
    ) -> None:
        state = indexed.state
        with pytest.raises(StoreError) as caught:
            indexed(changes=changes)
        assert str(caught.value) == f"collection 'pages' {said}"
        assert indexed.state == state
        assert indexed.embeddings.embedded == []
        assert indexed(changes=changes, replace=True).added == CHUNKS
        assert indexed(changes=changes).unchanged == CHUNKS
        found = self.terms(indexed.client, changes["keyword"].get("vector_name", "bm25"))
        bm25 = manifest(indexed.client)["bm25"]
        assert found == self.expected(found, bm25["average_length"], bm25["language"])

    def test_a_replacement_that_cannot_be_embedded_leaves_the_collection(self, indexed: Indexer) -> None:
        state = indexed.state
        with pytest.raises(ConnectionError):
            indexed(changes={"keyword": {"language": "german"}}, replace=True, embeddings=HashEmbeddings(poison="Beta"))
        assert indexed.state == state


FLAT = {"text_key": "body", "nested_under": "", "map": {"source_url": "href", "title": "name"}}
NESTED = {"text_key": "body", "nested_under": "meta", "map": {"tags": "labels"}}


@pytest.fixture(params=["embedded", "server"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, docs: Path) -> Iterator[Indexer]:
    """An indexer of the same pages into an embedded store, or a server over HTTP."""
    if request.param == "embedded":
        config = settings(tmp_path / "store")
        opened = writable(config.store)
        yield Indexer(opened, docs)
        opened.close()
        return
    with QdrantServer() as server:
        opened = open_client(StoreConfig.model_validate({"url": server.url}), {})
        yield Indexer(opened, docs, {"store": server.url})
        opened.close()


class TestPayloadKeys:
    """`metadata` names the payload keys: those that indexing writes are those that a search reads."""

    def searched(self, index: Indexer, metadata: dict[str, Any], **changes: Any) -> list[tuple[str, str, Any, Any]]:
        """Text, address, title and tags of every chunk that a search with these settings returns."""
        changes = {"metadata": metadata, "top_k": 20, "threshold": 0, **changes}
        with QdrantRetriever.open(index.config(changes), env={}, embeddings=HashEmbeddings()) as retriever:
            session = retriever.search("Two text.")
        assert session.status == "success"
        assert all(not found.chunk.problems for found in session.chunks)
        chunks = sorted((found.chunk for found in session.chunks), key=lambda chunk: chunk.text)
        return [(chunk.text, chunk.source_url or "", chunk.title, chunk.tags) for chunk in chunks]

    @pytest.mark.parametrize("metadata", [FLAT, pytest.param(NESTED, marks=pytest.mark.slow)])
    def test_what_was_indexed_can_be_searched_with_the_same_settings(
        self, anywhere: Indexer, metadata: dict[str, Any]
    ) -> None:
        assert anywhere(changes={"metadata": metadata}).added == CHUNKS
        for mode in ("semantic", "hybrid"):
            assert self.searched(anywhere, metadata, mode=mode) == [
                ("# Alpha\n\nAlpha text.", "/docs/one/alpha", "Alpha", ("a", "b")),
                ("# Beta\n\nBeta text.", "/docs/one/beta", "Beta", ()),
                ("## More\n\nMore text.", "/docs/two", "two", ()),
                ("## Sub\n\nSub text.", "/docs/one/alpha", "Alpha", ("a", "b")),
                ("Two text.", "/docs/two", "two", ()),
            ]
        filtered = self.searched(anywhere, metadata, mode="hybrid", filters="title = Alpha and tags contains b")
        assert [address for _, address, *_ in filtered] == ["/docs/one/alpha"] * 2
        assert anywhere(changes={"metadata": metadata}).unchanged == CHUNKS

    def test_a_flat_payload_is_flat(self, anywhere: Indexer) -> None:
        anywhere(changes={"metadata": FLAT})
        payloads = [payload for payload, _ in content(anywhere.client).values()]
        assert all({"body", "href", "name", "chunk_id", "tags"} <= set(payload) for payload in payloads)
        assert not any({"metadata", "page_content", "source_url", "title"} & set(payload) for payload in payloads)
        assert manifest(anywhere.client)["payload"] == FLAT

    @pytest.mark.slow
    def test_other_keys_refresh_every_payload_and_embed_nothing(self, anywhere: Indexer) -> None:
        """Check a changed collection against a fresh one: no payload is under the former keys."""
        order: tuple[dict[str, Any], ...] = ({}, FLAT, NESTED, FLAT | {"map": {}})
        for metadata in order:
            report = anywhere(changes={"metadata": metadata})
            assert (report.added, report.refreshed, report.removed) == ((0, CHUNKS, 0) if metadata else (CHUNKS, 0, 0))
            assert len(anywhere.embeddings.embedded) == report.added
        anywhere(changes={"metadata": order[-1], "collection": "fresh"})
        assert content(anywhere.client) == content(anywhere.client, "fresh")
        assert manifest(anywhere.client) == manifest(anywhere.client, "fresh")

    @pytest.mark.slow
    def test_a_collection_that_recorded_no_keys_has_those_of_langchain(self, indexed: Indexer) -> None:
        recorded = manifest(indexed.client)
        earlier = {key: value for key, value in recorded.items() if key != "payload"}
        indexed.client.update_collection("pages", metadata={"retrieval_evals": earlier})
        assert indexed().unchanged == CHUNKS
        assert manifest(indexed.client) == recorded
        indexed.client.update_collection("pages", metadata={"retrieval_evals": earlier})
        assert indexed(changes={"metadata": FLAT}).refreshed == CHUNKS

    def test_what_others_added_to_a_payload_stays_and_is_no_change(self, indexed: Indexer) -> None:
        point, (payload, _) = next(iter(content(indexed.client).items()))
        indexed.client.overwrite_payload("pages", {**payload, "theirs": 1}, points=[point])
        assert indexed().unchanged == CHUNKS
        assert content(indexed.client)[point][0]["theirs"] == 1

    def test_the_keys_are_indexed(self, indexed: Indexer) -> None:
        indexed(changes={"metadata": FLAT})
        schema = indexed.client.get_collection("pages").payload_schema
        assert {"href", "name", "tags"} <= set(schema)

    def test_keys_that_cannot_be_told_apart_are_refused_before_anything_is_made(self, index: Indexer) -> None:
        with pytest.raises(ConfigError, match=r"metadata\.map: title and heading would both be under"):
            index(changes={"metadata": {"map": {"title": "heading"}}})
        assert not index.client.collection_exists("pages")
        assert index.embeddings.embedded == []


class TestMassRemoval:
    def test_more_than_half_is_refused_and_nothing_changes(self, indexed: Indexer) -> None:
        state = indexed.state
        (indexed.docs / "two.md").unlink()
        (indexed.docs / "one/beta.mdx").unlink()
        with pytest.raises(StoreError, match=r"holds 5 chunks, of which 3 would be removed.*--replace"):
            indexed()
        assert indexed.state == state
        assert indexed.embeddings.embedded == []

    def test_replace_allows_it(self, indexed: Indexer) -> None:
        (indexed.docs / "two.md").unlink()
        (indexed.docs / "one/beta.mdx").unlink()
        assert indexed(replace=True).removed == 3

    def test_half_is_allowed(self, index: Indexer) -> None:
        (index.docs / "one/beta.mdx").unlink()
        index()
        (index.docs / "two.md").unlink()
        assert (index().removed, len(content(index.client))) == (2, 2)


class TestBrokenPages:
    @pytest.fixture
    def broken(self, indexed: Indexer) -> Indexer:
        indexed.edit("one/alpha.md", "Sub text.", "Other text.")
        write_pages(indexed.docs, {"bad.md": "---\ntitle: [\n---\nx"})
        return indexed

    def test_by_default_nothing_changes(self, broken: Indexer) -> None:
        state = broken.state
        with pytest.raises(
            IndexingError, match=r"nothing was changed \(--skip-broken.*\n  .*bad\.md: line 2: "
        ) as caught:
            broken()
        assert len(caught.value.faults) == 1
        assert broken.state == state
        assert broken.embeddings.embedded == []

    def test_by_default_no_collection_is_made(self, index: Indexer) -> None:
        write_pages(index.docs, {"bad.md": ""})
        with pytest.raises(IndexingError):
            index()
        assert not index.client.collection_exists("pages")

    def test_skipping_indexes_the_rest_and_records_the_fault(self, broken: Indexer) -> None:
        report = broken(skip_broken=True)
        assert (report.pages, report.added, report.removed) == (3, 1, 1)
        assert [fault.split(": ")[0] for fault in report.skipped] == [str(broken.docs / "bad.md")]
        recorded = manifest(broken.client)
        assert (recorded["skipped"], recorded["state"]) == ([str(broken.docs / "bad.md")], "complete")

    @pytest.mark.slow
    def test_mending_the_page_clears_the_record(self, broken: Indexer) -> None:
        broken(skip_broken=True)
        write_pages(broken.docs, {"bad.md": "Good now."})
        assert broken().added == 1
        assert manifest(broken.client)["skipped"] == []

    def test_skipping_everything_is_refused(self, index: Indexer, tmp_path: Path) -> None:
        index.docs = write_pages(tmp_path / "other", {"bad.md": ""})
        with pytest.raises(IndexingError, match="nothing was changed"):
            index(skip_broken=True)
        assert not index.client.collection_exists("pages")

    def test_skipping_leaves_out_the_second_page_of_an_address(self, index: Indexer) -> None:
        write_pages(index.docs, {"two.mdx": "Two text.\n\n## More\n\nOther words.\n"})
        report = index(skip_broken=True)
        assert (report.pages, report.chunks) == (3, CHUNKS)
        assert {p["metadata"]["file_path"] for p, _ in content(index.client).values()} == set(PAGES)


class TestEmbeddingFailure:
    def test_in_the_midst_changes_nothing(self, indexed: Indexer) -> None:
        state = indexed.state
        sections = "".join(f"# H{i}\n\ntext {i}\n\n" for i in range(EMBED_BATCH + 5))
        write_pages(indexed.docs, {"many.md": sections + "# Last\n\npoison\n"})
        failing = HashEmbeddings(poison="poison")
        with pytest.raises(EmbeddingError, match=r"python:x failed to embed: ConnectionError, the provider went away"):
            indexed(embeddings=CheckedEmbeddings(failing, "python:x"))
        assert len(failing.embedded) == EMBED_BATCH
        assert indexed.state == state

    def test_on_a_first_run_makes_no_collection(self, index: Indexer) -> None:
        with pytest.raises(ConnectionError):
            index(embeddings=HashEmbeddings(poison="Two"))
        assert not index.client.collection_exists("pages")


class TestOtherCollections:
    def test_another_model_is_refused(self, indexed: Indexer) -> None:
        state = indexed.state
        indexed.edit("two.md", "More", "Changed")
        other = {"embedding": {"provider": "python", "model": "tests.support.indexing:make_other_length"}}
        with pytest.raises(StoreError, match=r"embedded by python:\S+make_embeddings, not by python:\S+other"):
            indexed(changes=other)
        assert indexed.state == state
        assert indexed.embeddings.embedded == []

    def test_vectors_of_another_length_are_refused_before_writing(self, indexed: Indexer) -> None:
        state = indexed.state
        indexed.edit("two.md", "More text.", "Changed text.")
        with pytest.raises(StoreError, match="vectors of 8 and 9 dimensions"):
            indexed(embeddings=HashEmbeddings(dimension=9))
        assert indexed.state == state

    @pytest.mark.parametrize("nested", [True, False])
    def test_a_collection_made_by_langchain_is_left_alone(self, index: Indexer, nested: bool) -> None:
        size = models.VectorParams(size=8, distance=models.Distance.COSINE)
        index.client.create_collection("pages", vectors_config={"v": size} if nested else size)
        store = QdrantVectorStore(index.client, "pages", embedding=HashEmbeddings(), vector_name="v" if nested else "")
        store.add_texts(["theirs", "theirs too"], [{"a": 1}, {"a": 2}])
        state = index.state
        expected = "was not made by `retrievers index` and is left alone"
        with pytest.raises(StoreError, match=expected):
            index()
        with pytest.raises((StoreError, StoreError), match=expected):
            index(replace=True)
        assert index.state == state
        assert index.embeddings.embedded == []

    def test_other_collections_of_the_store_stay_as_they_are(self, index: Indexer) -> None:
        index(changes={"collection": "other"})
        before = content(index.client, "other")
        (index.docs / "two.md").unlink()
        index()
        assert content(index.client, "other") == before


def state_of(store: Path) -> tuple[Any, Any]:
    opened = writable(StoreConfig(path=store))
    try:
        return content(opened), manifest(opened)
    finally:
        opened.close()


def run_index(docs: Path, store: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    model = ["--embedding.provider", "python", "--embedding.model", "tests.support.indexing:make_embeddings"]
    command = [sys.executable, "-m", "retrievers", "index", str(docs), "--store.path", str(store), "--replace", *model]
    return subprocess.run(
        [*command, "--collection", "pages"],
        cwd=ROOT,
        env={"PATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


CHANGED = {
    "one/alpha.md": PAGES["one/alpha.md"].replace("Alpha text.", "Alpha text.\n\n"),
    "one/beta.mdx": "# Beta\n\nOther text.\n",
    "two.md": "Two text.\n",
    **{f"new/{n}.md": f"New page {n}.\n" for n in range(5)},
}


@pytest.mark.slow
class TestKilledWhileWriting:
    """The process is killed while it builds: the collection stays as it was, and a second run completes it."""

    @pytest.mark.parametrize("call", ["upsert:1", "upsert:2"])
    def test_on_the_first_run(self, docs: Path, tmp_path: Path, call: str) -> None:
        assert self.killed(docs, tmp_path / "store", call)
        with pytest.raises(CollectionNotFoundError):
            QdrantRetriever.open(settings(tmp_path / "store"), env={}, embeddings=HashEmbeddings())
        self.completes(docs, tmp_path)

    @pytest.mark.parametrize("call", ["upsert:1", "upsert:2", "upsert:4"])
    def test_on_a_later_run(self, docs: Path, tmp_path: Path, call: str) -> None:
        self.index_here(docs, tmp_path / "store")
        state = state_of(tmp_path / "store")
        (docs / "one/beta.mdx").unlink()
        write_pages(docs, CHANGED)
        assert self.killed(docs, tmp_path / "store", call)
        assert state_of(tmp_path / "store") == state
        self.completes(docs, tmp_path)

    def completes(self, docs: Path, tmp_path: Path) -> None:
        store, undisturbed = tmp_path / "store", tmp_path / "undisturbed"
        report = self.index_here(docs, store)
        fresh = self.index_here(docs, undisturbed)
        assert report.chunks == fresh.chunks == fresh.added
        assert state_of(store) == state_of(undisturbed)
        with QdrantRetriever.open(settings(store), env={}, embeddings=HashEmbeddings()) as retriever:
            assert retriever.info.points == fresh.chunks

    def killed(self, docs: Path, store: Path, call: str) -> bool:
        done = run_index(docs, store, **{KILL_AT: call})
        return (done.returncode, done.stdout) == (-9, "")

    def index_here(self, docs: Path, store: Path) -> IndexReport:
        config = settings(store)
        client = writable(config.store)
        try:
            return index_corpus(client, config, HashEmbeddings(), read_corpus(docs), IndexOptions(replace=True))
        finally:
            client.close()
