"""Damage to a collection's files: told when it is opened or written to, and by `verify`, never by other results."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from qdrant_client import models

from retrievers.errors import CollectionDamagedError
from retrievers.store.edge import EdgeClient, checksums

NAME = "pages"
Harm = Callable[[Path], None]


@pytest.fixture
def generation(client: EdgeClient) -> Path:
    """The files of a collection of 60 points."""
    with client.changing(NAME):
        client.create_collection(
            NAME,
            models.VectorParams(size=2, distance=models.Distance.COSINE),
            {"terms": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        client.create_payload_index(NAME, "kind", "keyword")
        client.upsert(NAME, [point(number) for number in range(60)])
    return client.path / "collections" / NAME / client.generation(NAME)


def point(number: int) -> models.PointStruct:
    terms = models.SparseVector(indices=[number % 7, 10 + number % 5], values=[1.0, 2.0])
    return models.PointStruct(id=number, vector={"": [1.0, number], "terms": terms}, payload={"kind": f"k{number % 3}"})


def one(generation: Path, pattern: str) -> Path:
    return next(generation.glob(f"shard/segments/*/{pattern}"))


def flipped(pattern: str) -> Harm:
    """One bit of what is in a file is another one."""

    def harm(generation: Path) -> None:
        file = one(generation, pattern)
        content = bytearray(file.read_bytes())
        place = next(place for place, value in enumerate(content) if value)
        with file.open("r+b") as opened:
            opened.seek(place)
            opened.write(bytes([content[place] ^ 1]))

    return harm


def halved(pattern: str) -> Harm:
    def harm(generation: Path) -> None:
        file = one(generation, pattern)
        os.truncate(file, file.stat().st_size // 2)

    return harm


HARMS = {
    "a vector": (flipped("vector_storage/vectors/chunk_0.mmap"), "chunk_0.mmap: the content is not what was written"),
    "a term weight": (flipped("vector_storage-terms/store/page_0.dat"), "vector_storage-terms/store/page_0.dat: the"),
    "a payload": (flipped("payload_storage/page_0.dat"), "payload_storage/page_0.dat: the content is not"),
    "a payload index": (flipped("payload_index/*-kind-map/page_0.dat"), "-kind-map/page_0.dat: the content is not"),
    "half of the ids": (
        halved("mutable_id_tracker.mappings"),
        "mutable_id_tracker.mappings: expected 780 bytes, found",
    ),
    "half of the versions": (halved("mutable_id_tracker.versions"), "mutable_id_tracker.versions: expected 480 bytes"),
    "a file that is gone": (lambda g: one(g, "segment.json").unlink(), "segment.json: is missing"),
    "another collection.json": (
        lambda g: (g / "collection.json").write_text((g / "collection.json").read_text().replace("Cosine", "Dot")),
        "collection.json: expected ",
    ),
    "checksums that are none": (lambda g: (g / checksums.NAME).write_text("[]"), "checksums.json: TypeError: "),
    "checksums of nothing": (lambda g: (g / checksums.NAME).write_text("{}"), "checksums.json: KeyError: 'files'"),
}


@pytest.mark.parametrize(("harm", "said"), HARMS.values(), ids=HARMS)
def test_damage_is_told_by_file_with_what_to_do(client: EdgeClient, generation: Path, harm: Harm, said: str) -> None:
    harm(generation)
    with EdgeClient(client.path) as other:
        for look in (other.count, other.verify, lambda name: other.upsert(name, [point(1)])):
            with pytest.raises(CollectionDamagedError) as raised:
                look(NAME)
            assert str(raised.value).startswith(f"{generation} is damaged: ")
            assert said in str(raised.value)
            assert str(raised.value).endswith(f"; remove {generation.parent} and index again")
        assert other.generation(NAME) == generation.name, "what is damaged is not copied into a new generation"


def test_what_to_do_helps(client: EdgeClient, generation: Path) -> None:
    flipped("payload_storage/page_0.dat")(generation)
    shutil.rmtree(generation.parent)
    with EdgeClient(client.path) as other:
        other.create_collection(NAME, models.VectorParams(size=2, distance=models.Distance.COSINE))
        assert other.verify(NAME) is not None


def test_many_damaged_files_are_counted_and_all_listed_by_verify(client: EdgeClient, generation: Path) -> None:
    for file in list(generation.rglob("status.dat")):
        file.unlink()
    with EdgeClient(client.path) as other:
        with pytest.raises(CollectionDamagedError, match=r"; … and \d+ more; remove") as short:
            other.count(NAME)
        with pytest.raises(CollectionDamagedError) as whole:
            other.verify(NAME)
    assert str(short.value).count("is missing") == 3 < str(whole.value).count("is missing")


def test_a_change_that_left_size_and_time_is_found_by_verify(client: EdgeClient, generation: Path) -> None:
    file = one(generation, "vector_storage/vectors/chunk_0.mmap")
    before = file.stat()
    flipped("vector_storage/vectors/chunk_0.mmap")(generation)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with EdgeClient(client.path) as other:
        assert other.count(NAME).count == 60
        with pytest.raises(CollectionDamagedError, match=r"chunk_0\.mmap: the content is not what was written"):
            other.verify(NAME)


def test_points_that_the_engine_does_not_find(client: EdgeClient, generation: Path) -> None:
    recorded = json.loads((generation / checksums.NAME).read_text())
    (generation / checksums.NAME).write_text(json.dumps({**recorded, "points": 61}))
    with EdgeClient(client.path) as other, pytest.raises(CollectionDamagedError, match="expected 61 points, found 60"):
        other.count(NAME)


def test_a_collection_from_before_checksums_opens(client: EdgeClient, generation: Path) -> None:
    (generation / checksums.NAME).unlink()
    with EdgeClient(client.path) as other:
        assert (other.count(NAME).count, other.verify(NAME)) == (60, None)
        other.upsert(NAME, [point(60)])
        assert other.verify(NAME) is not None, "the next change has them"


def test_what_another_version_of_the_engine_wrote_is_not_compared(client: EdgeClient, generation: Path) -> None:
    recorded = json.loads((generation / checksums.NAME).read_text())
    (generation / checksums.NAME).write_text(json.dumps({**recorded, "engine": "0.8.7"}))
    flipped("payload_storage/page_0.dat")(generation)
    with EdgeClient(client.path) as other:
        found = other.verify(NAME)
        assert found is not None and not found.comparable
        assert other.count(NAME).count == 60


def test_a_copy_without_holes_and_with_other_times_is_whole(client: EdgeClient, generation: Path) -> None:
    copy = client.path.with_name("copy")
    shutil.copytree(client.path, copy, copy_function=shutil.copyfile)
    with EdgeClient(copy) as other:
        assert other.count(NAME).count == 60
        assert other.verify(NAME) is not None


def test_the_engine_changes_nothing_by_opening_reading_and_closing(client: EdgeClient, generation: Path) -> None:
    with client.changing(NAME):
        client.delete(NAME, list(range(20)))
        client.overwrite_payload(NAME, {"kind": "other"}, points=[30])
        client.upsert(NAME, [point(number) for number in range(50, 90)])
    for _ in range(3):
        with EdgeClient(client.path) as other:
            assert other.query_points(NAME, [1.0, 2.0], limit=5).points
            assert len(other.scroll(NAME, limit=100, with_vectors=True)[0]) == other.count(NAME).count == 70
        assert client.verify(NAME) is not None
