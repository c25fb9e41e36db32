"""Pages to a collection, embedded and on a server: only what changed, all of it, or nothing."""

import math
import random
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models
from syrupy.assertion import SnapshotAssertion

from retrievers import QdrantRetriever, net
from retrievers.config import EmbeddingConfig, IndexSettings, RetrieverConfig
from retrievers.config.indexing import DEFAULTS
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.embedding.models import CheckedEmbeddings
from retrievers.errors import EmbeddingError, IndexingError, StoreError
from retrievers.indexing.index import index_corpus
from retrievers.indexing.pages import read_corpus
from retrievers.store.opening import open_client
from retrievers.terminal.commands import main
from tests.support.collections import fill
from tests.support.hybrid import terms
from tests.support.indexing import HashEmbeddings, content, manifest, settings, write_pages
from tests.support.qdrant_server import QdrantServer

ALPHA = "---\ntitle: Alpha\ntags: [a, b]\nsidebar_position: 1\n---\n\n# Alpha\n\nAlpha text.\n\n## Sub\n\nSub text.\n"
PAGES = {
    "one/alpha.md": ALPHA,
    "one/beta.mdx": "# Beta\n\nBeta text.\n",
    "two.md": "Two text.\n\n## More\n\nMore text.\n",
}
CHUNKS = 5


class Indexer:
    """Indexes the docs folder into one client with counting embeddings."""

    def __init__(self, client: QdrantClient, docs: Path, always: Mapping[str, Any] | None = None) -> None:
        self.client, self.docs, self.always = client, docs, always or {}
        self.embeddings = HashEmbeddings()

    def config(self, changes: Mapping[str, Any] | None = None) -> RetrieverConfig:
        changes = {**self.always, **(changes or {})}
        return settings(changes.pop("store", self.docs.parent / "store"), **changes)

    def __call__(self, *, changes: dict[str, Any] | None = None, **options: Any) -> tuple[int, int]:
        """Index; return the numbers of new or changed, and of removed chunks."""
        self.embeddings = options.pop("embeddings", None) or HashEmbeddings()
        named = {name: options.pop(name) for name in IndexSettings.model_fields if name in options}
        if not self.client.collection_exists(self.config(changes).collection):
            named.setdefault("context", "none")
        corpus = read_corpus(self.docs).readable(skip_broken=options.pop("skip_broken", False))
        how = IndexSettings.model_validate(named)
        report = index_corpus(self.client, self.config(changes), self.embeddings, corpus, how, **options)
        return report.changed, report.removed

    def refuses(self, said: str, kind: type[Exception] = StoreError, **options: Any) -> None:
        """Index, and check that it is refused, and that the collection is as it was, or there is none."""
        before = self.state
        with pytest.raises(kind, match=said):
            self(**options)
        assert (self.state, self.embeddings.embedded) == (before, [])

    @property
    def state(self) -> tuple[Any, Any] | None:
        return (content(self.client), manifest(self.client)) if self.client.collection_exists("pages") else None

    def edit(self, name: str, old: str, new: str) -> None:
        source = (self.docs / name).read_text(encoding="utf-8")
        assert old in source
        write_pages(self.docs, {name: source.replace(old, new)})

    def terms(self) -> dict[str, dict[int, float]]:
        """Text to the term weights that are stored for it."""
        records, _ = self.client.scroll("pages", limit=1000, with_payload=True, with_vectors=True)
        sparse: list[Any] = [vector.get("bm25") if isinstance(vector := r.vector, dict) else None for r in records]
        pairs = (dict(zip(s.indices, s.values, strict=True)) if s else {} for s in sparse)
        return {(r.payload or {})["page_content"]: weights for r, weights in zip(records, pairs, strict=True)}


@pytest.fixture(params=["embedded", "server"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Indexer]:
    """An indexer of the pages into an embedded store, or a server over HTTP."""
    docs = write_pages(tmp_path / "docs", PAGES)
    if request.param == "embedded":
        with closing(open_client(settings(tmp_path / "store").store, {}, create=True)) as opened:
            yield Indexer(opened, docs)
        return
    with QdrantServer() as server, closing(open_client(settings(server.url).store, {})) as opened:
        yield Indexer(opened, docs, {"store": server.url})


embedded = pytest.mark.parametrize("index", ["embedded"], indirect=True)


def test_a_first_run_stores_all_that_is_known_of_every_chunk(index: Indexer, snapshot: SnapshotAssertion) -> None:
    assert index() == (CHUNKS, 0)
    stored = content(index.client)
    assert sorted(index.embeddings.embedded) == sorted(payload["page_content"] for payload, _ in stored.values())
    assert {point: payload for point, (payload, _) in stored.items()} == snapshot(name="payloads")
    assert manifest(index.client) == snapshot(name="manifest")
    for point, (payload, _) in stored.items():
        assert point == str(uuid.uuid5(uuid.NAMESPACE_URL, payload["metadata"]["chunk_id"]))
    info = index.client.get_collection("pages")
    params: Any = info.config.params.vectors
    params = params[""] if isinstance(params, dict) else params
    assert (params.size, params.distance) == (8, models.Distance.COSINE)
    assert (info.config.params.sparse_vectors or {})["bm25"].modifier == models.Modifier.IDF
    assert {"metadata.source_url", "metadata.tags", "metadata.chunk_index"} <= set(info.payload_schema)


def test_a_second_run_does_what_changed_alone(index: Indexer, tmp_path: Path) -> None:
    def files() -> dict[Path, tuple[bytes, int]]:
        found = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
        return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in found}

    index()
    state, on_disk, first = index.state, files(), manifest(index.client)
    assert (index(), index.embeddings.embedded) == ((0, 0), [])
    assert (files() == on_disk, index.state) == (True, state), "nothing is written"
    index.edit("one/alpha.md", "Sub text.", "Other text.")
    assert (index(), index.embeddings.embedded[CHUNKS:]) == ((1, 1), ["## Sub\n\nOther text."])  # first a check
    before, terms = content(index.client), index.terms()
    index.edit("one/alpha.md", "Alpha text.\n", "Alpha text.\n\n\n\n")
    assert (index(), index.embeddings.embedded) == ((1, 0), [])
    after = content(index.client)
    [moved] = [key for key in after if after[key] != before[key]]
    assert after[moved][0]["metadata"]["start_line"] == before[moved][0]["metadata"]["start_line"] + 3
    assert (after[moved][1], index.terms()) == (before[moved][1], terms)
    index.edit("one/alpha.md", "sidebar_position: 1\n", "")
    assert index() == (2, 0)
    assert not any("sidebar_position" in payload["metadata"] for payload, _ in content(index.client).values())
    index.edit("two.md", "More text.\n", "More text.\n\n\n")
    fingerprint = manifest(index.client)["pages_fingerprint"]
    assert index() == (0, 0)
    assert manifest(index.client)["pages_fingerprint"] != fingerprint
    (index.docs / "two.md").unlink()
    write_pages(index.docs, {"one/aaa.md": "Same.", "one/bbb.md": "Same."})
    assert (index(), index.embeddings.embedded[CHUNKS:]) == ((2, 2), ["Same."])
    recorded = manifest(index.client)
    is_on_a_server = "store" in index.always
    assert (recorded["bm25"] == first["bm25"]) == is_on_a_server, "there the points that stay were weighed by it"
    index(changes={"collection": "fresh"})
    assert content(index.client, "fresh") == content(index.client)
    assert {**manifest(index.client, "fresh"), "bm25": 0} == {**recorded, "bm25": 0}


@embedded
def test_progress_counts_up_to_the_whole(index: Indexer) -> None:
    seen: list[tuple[str, int, int]] = []
    write_pages(index.docs, {"many.md": "".join(f"# H{i}\n\ntext {i}\n\n" for i in range(295))})
    index(progress=lambda *done: seen.append(done))
    stages = {stage: [done for one, done, _ in seen if one == stage] for stage, *_ in seen}
    assert stages == {"cutting": [1, 2, 3, 4], "embedding": [96, 192, 288, 300], "writing": [256, 300]}
    assert {(stage, total) for stage, _, total in seen} == {("cutting", 4), ("embedding", 300), ("writing", 300)}


@embedded
def test_settings_that_are_not_named_are_the_recorded_ones_and_others_make_all_again(index: Indexer) -> None:
    index(context="title", max_tokens=64)
    before = index.state
    assert (index(), index.state) == ((0, 0), before)
    for change in ({"context": "path"}, {"max_tokens": 16}, {"splitter": "whole"}):
        [(name, value)] = change.items()
        index.refuses(rf"was indexed with index\.{name} .*, not {value!r}; .*--replace", **change)
    assert index(context="path", replace=True)[0] == CHUNKS
    assert len(index.embeddings.embedded) == 2 + CHUNKS, "the other texts are embedded for the check alone"
    assert (index(max_tokens=128, replace=True)[0], len(index.embeddings.embedded)) == (CHUNKS, CHUNKS), "for the check"
    assert manifest(index.client)["index"] == {**DEFAULTS, "context": "path", "max_tokens": 128}


@embedded
def test_the_context_is_embedded_and_indexed_and_stored_apart_from_the_text(index: Indexer) -> None:
    index(context="path")
    points = {payload["metadata"]["chunk_context"]: (payload, v) for payload, v in content(index.client).values()}
    assert set(points) == {"Alpha", "Alpha > Sub", "Beta", "two", "two > More"}
    (payload, vector), indexed = points["Alpha > Sub"], "Alpha > Sub\n\n## Sub\n\nSub text."
    assert payload["page_content"] == "## Sub\n\nSub text."
    raw = HashEmbeddings().embed_query(indexed)
    assert vector == pytest.approx([value / math.hypot(*raw) for value in raw], abs=1e-5)
    average = manifest(index.client)["bm25"]["average_length"]
    assert average == round(sum(len(terms(text)) for text in index.embeddings.embedded) / CHUNKS, 3)
    assert index.terms()["## Sub\n\nSub text."] == weights(Bm25Encoder("english", average), indexed)
    index.edit("one/alpha.md", "title: Alpha", "title: Omega")
    assert index() == (2, 0)
    index(context="path", changes={"collection": "fresh"})
    assert index.state == (content(index.client, "fresh"), manifest(index.client, "fresh")), "as if made at once"


def weights(encoder: Bm25Encoder, text: str) -> Any:
    terms = encoder.document(text)
    return pytest.approx(dict(zip(terms.indices, terms.values, strict=True)))


@embedded
def test_the_terms_are_those_of_the_language_and_a_chunk_may_have_none(index: Indexer) -> None:
    write_pages(index.docs, {"stop.md": "the and of 🤖\n"})
    index(changes={"keyword": {"language": "german"}})
    encoder = Bm25Encoder("german", manifest(index.client)["bm25"]["average_length"])
    assert encoder.query("der Roboter und die Gelenke") == encoder.query("Roboter Gelenk") != encoder.query("der Arm")
    for text, stored in index.terms().items():
        assert stored == weights(encoder, text)
    for keyword, said in (
        ({"language": "english"}, "language 'german', not 'english'"),
        ({"language": "german", "vector_name": "t"}, "vector_name None, not 't'"),
    ):
        index.refuses(rf"'pages' was indexed with keyword\.{said}; .*--replace", changes={"keyword": keyword})
    assert index(changes={"keyword": {}}, replace=True)[0] == CHUNKS + 1


FLAT = {"text_key": "body", "nested_under": "", "map": {"source_url": "href", "title": "name"}}
NESTED = {"text_key": "body", "nested_under": "meta", "map": {"tags": "labels"}}


@pytest.mark.parametrize("metadata", [FLAT, NESTED])
def test_what_was_indexed_under_other_keys_is_searched(index: Indexer, metadata: dict[str, Any]) -> None:
    index()
    changes = {"metadata": metadata, "top_k": 20, "mode": "hybrid"}
    assert index(changes=changes) == (CHUNKS, 0)
    assert index(changes=changes) == (0, 0)
    config = index.config(changes | {"filters": "title = Alpha and tags contains b"})
    with QdrantRetriever.open(config, env={}, embeddings=HashEmbeddings()) as retriever:
        found = sorted((hit.chunk for hit in retriever.search("Two text.").chunks), key=lambda chunk: chunk.text)
    assert [chunk.text for chunk in found] == ["# Alpha\n\nAlpha text.", "## Sub\n\nSub text."]
    assert {(chunk.source_url, chunk.tags, chunk.problems) for chunk in found} == {("/docs/one/alpha", ("a", "b"), ())}
    index(changes=changes | {"collection": "fresh"})
    assert index.state == (content(index.client, "fresh"), manifest(index.client, "fresh"))


def test_nothing_changes_where_a_run_is_refused(index: Indexer) -> None:
    failing = CheckedEmbeddings(HashEmbeddings(poison="Beta"), "python:x", EmbeddingConfig())
    with pytest.raises(EmbeddingError, match="python:x failed to embed"):
        index(embeddings=failing)
    assert index.state is None
    index()
    write_pages(index.docs, {"bad.md": "---\ntitle: [\n---\nx"})
    index.refuses(r"nothing was changed \(--skip-broken.*\n  .*bad\.md: line 2: ", IndexingError)
    (index.docs / "bad.md").unlink()
    index.edit("two.md", "More text.", "Changed text.")
    other = {"embedding": {"model": "python:tests.support.indexing:make_other_length"}}
    index.refuses(r"embedded by python:\S+make_embeddings, not by python:\S+other", changes=other)
    before = index.state
    with pytest.raises(
        StoreError, match=r"makes 9 dimensions, .* holds 8; .*, or embed all of it again with --replace"
    ):
        index(embeddings=HashEmbeddings(9))
    assert index.state == before
    for page in ("two.md", "one/beta.mdx"):
        (index.docs / page).unlink()
    index.refuses(r"would lose 3 of its 5 chunks.*--replace")
    assert index(replace=True) == (0, 3)
    assert (index(replace=True, embeddings=HashEmbeddings(9))[0], len(content(index.client).popitem()[1][1])) == (2, 9)


def test_pages_of_which_nothing_is_left_to_index_are_refused(index: Indexer) -> None:
    for page in PAGES:
        (index.docs / page).unlink()
    write_pages(index.docs, {"mark.md": ":::\n"})
    index.refuses("docs: its pages have no text to index; nothing was changed", IndexingError)


def test_a_collection_of_another_program_is_left_alone(index: Indexer) -> None:
    fill(index.client, "pages", [[1.0] * 8] * 2, [{"page_content": "theirs"}, {"page_content": "theirs too"}])
    index.refuses("was not made by `retrievers index` and is left alone", replace=True)
    assert index.client.count("pages").count == 2


@embedded
def test_what_was_embedded_before_an_interruption_is_not_embedded_again(
    index: Indexer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = tmp_path / "cache" / "retrieval-evals"
    write_pages(index.docs, {f"{n:03}.md": f"Text {n}." for n in range(200)})
    own, other = ({"embedding": {"model": f"python:tests.support.indexing:{name}"}} for name in ("a", "b"))
    failing = CheckedEmbeddings(HashEmbeddings(poison="Text 199."), "model")
    with net.patient(0), pytest.raises(EmbeddingError, match=r"; [1-9]\d+ embedded texts are kept: the same"):
        index(changes=own, embeddings=failing)
    [before] = [file for file in kept.iterdir() if file.suffix == ".sqlite"]
    assert before.stat().st_mode & 0o077 == 0 and not index.client.collection_exists("pages")
    index(changes={**own, "collection": "another"})
    assert before.exists(), "another collection has its own"
    index(changes=own)
    assert 0 < len(index.embeddings.embedded) <= 200 + CHUNKS - 96 and "Text 199." in index.embeddings.embedded
    assert list(kept.iterdir()) == []
    whole, fourth = content(index.client), {**own, "collection": "fourth"}
    assert whole == content(index.client, "another")
    for model, said in ((failing, "failed to embed"), (HashEmbeddings(9), "had 8 dimensions, and now have 9")):
        with net.patient(0), pytest.raises(EmbeddingError, match=said):
            index(changes=fourth, embeddings=model)
    index(changes=fourth)
    assert content(index.client, "fourth") == whole
    kept.rmdir()
    kept.write_text("a cache that cannot be a folder")
    with net.patient(0), pytest.raises(EmbeddingError, match=r"went away$"):
        index(changes={**other, "collection": "third"}, embeddings=CheckedEmbeddings(failing.inner, "model"))
    index(changes={**other, "collection": "third"})
    assert content(index.client, "third") == whole


KILLS = 25


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_the_collection_whole_or_as_it_was(on_disk: Path) -> None:
    docs, store, draw = on_disk / "docs", on_disk / "store", random.Random(7)
    model = ["--embedding.model", "python:tests.support.indexing:make_embeddings", "--quiet"]
    arguments = ["index", str(docs), "--store.path", str(store), "--collection", "pages", "--replace", *model]
    processes = get_context("forkserver")
    processes.set_forkserver_preload(["retrievers.indexing.index", "retrievers.terminal.commands"])

    def run(seconds: float | None = None) -> None:
        child = processes.Process(target=main, args=(arguments,))
        child.start()
        child.join(seconds)
        child.kill()
        child.join()

    def written(version: int) -> tuple[set[str], str]:
        """Write the pages of a version, which differs from the others in many of them and in their number."""
        shutil.rmtree(docs, ignore_errors=True)
        texts = {n: f"Page {n} of version {version if n % 4 else 0}." for n in range(100) if (7 * n + version) % 5}
        write_pages(docs, {f"{n}.md": text for n, text in texts.items()})
        return {*texts.values()}, read_corpus(docs).fingerprint

    def found() -> tuple[set[str], str]:
        with closing(open_client(settings(store).store, {}, create=True)) as client:
            points, near = content(client), client.query_points("pages", [1.0] * 8, limit=1_000).points
            assert len(near) == len(points)
            return {payload["page_content"] for payload, _ in points.values()}, manifest(client)["pages_fingerprint"]

    came = set[bool]()
    for version in (0, 1):  # the first process starts slowly
        before, began = written(version), time.monotonic()
        run()
        lasts = time.monotonic() - began
    for version in range(2, KILLS):
        new = written(version)
        run(draw.uniform(0.2, 1.5) * lasts)
        now = found()
        assert now in (before, new)
        came.add(now == new)
        before, lasts = now, lasts * (0.9 if now == new else 1.1)  # other work may begin or end
    new = written(KILLS)
    run()
    assert (came, found()) == ({True, False}, new)
    assert [entry.name for entry in (store / "collections").iterdir()] == ["pages"]
