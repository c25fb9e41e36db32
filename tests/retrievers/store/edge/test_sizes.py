"""Damage to a collection's files: told when it is opened or written to, never by other results."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from qdrant_client import models

from retrievers.errors import CollectionDamagedError
from retrievers.store.edge import EdgeClient, layout

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


def halved(pattern: str) -> Harm:
    def harm(generation: Path) -> None:
        file = one(generation, pattern)
        os.truncate(file, file.stat().st_size // 2)

    return harm


HARMS = {
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
    "sizes that are none": (lambda g: (g / layout.SIZES).write_text("[]"), "sizes.json: TypeError: "),
    "sizes of nothing": (lambda g: (g / layout.SIZES).write_text("{}"), "sizes.json: KeyError: 'points'"),
}


@pytest.mark.parametrize(("harm", "said"), HARMS.values(), ids=HARMS)
def test_damage_is_told_by_file_with_what_to_do(client: EdgeClient, generation: Path, harm: Harm, said: str) -> None:
    harm(generation)
    with EdgeClient(client.path) as other:
        for look in (other.count, lambda name: other.upsert(name, [point(1)])):
            with pytest.raises(CollectionDamagedError) as raised:
                look(NAME)
            assert str(raised.value).startswith(f"{generation} is damaged: ")
            assert said in str(raised.value)
            assert str(raised.value).endswith(f"; remove {generation.parent} and index again")
        assert other.generation(NAME) == generation.name, "what is damaged is not copied into a new generation"


def test_what_to_do_helps(client: EdgeClient, generation: Path) -> None:
    halved("mutable_id_tracker.mappings")(generation)
    shutil.rmtree(generation.parent)
    with EdgeClient(client.path) as other:
        other.create_collection(NAME, models.VectorParams(size=2, distance=models.Distance.COSINE))
        assert other.count(NAME).count == 0


def test_points_that_the_engine_does_not_find(client: EdgeClient, generation: Path) -> None:
    recorded = json.loads((generation / layout.SIZES).read_text())
    (generation / layout.SIZES).write_text(json.dumps({**recorded, "points": 61}))
    with EdgeClient(client.path) as other, pytest.raises(CollectionDamagedError, match="expected 61 points, found 60"):
        other.count(NAME)


def test_a_collection_without_recorded_sizes_opens(client: EdgeClient, generation: Path) -> None:
    (generation / layout.SIZES).unlink()
    with EdgeClient(client.path) as other:
        assert other.count(NAME).count == 60
        other.upsert(NAME, [point(60)])
        assert list(generation.parent.glob(f"*/{layout.SIZES}")), "the next change has them"


def test_what_another_version_of_the_engine_wrote_is_not_compared(client: EdgeClient, generation: Path) -> None:
    recorded = json.loads((generation / layout.SIZES).read_text())
    (generation / layout.SIZES).write_text(json.dumps({**recorded, "engine": "0.8.7", "points": 61}))
    with EdgeClient(client.path) as other:
        assert other.count(NAME).count == 60


def test_many_damaged_files_are_counted(client: EdgeClient, generation: Path) -> None:
    for file in list(generation.rglob("status.dat")):
        file.unlink()
    with EdgeClient(client.path) as other:
        with pytest.raises(CollectionDamagedError, match=r"; … and \d+ more; remove") as short:
            other.count(NAME)
    assert str(short.value).count("is missing") == 3


def test_a_copy_without_holes_and_with_other_times_is_whole(client: EdgeClient, generation: Path) -> None:
    copy = client.path.with_name("copy")
    shutil.copytree(client.path, copy, copy_function=shutil.copyfile)
    with EdgeClient(copy) as other:
        assert other.count(NAME).count == 60


def test_the_engine_changes_nothing_by_opening_reading_and_closing(client: EdgeClient, generation: Path) -> None:
    with client.changing(NAME):
        client.delete(NAME, list(range(20)))
        client.overwrite_payload(NAME, {"kind": "other"}, points=[30])
        client.upsert(NAME, [point(number) for number in range(50, 90)])
    for _ in range(3):
        with EdgeClient(client.path) as other:
            assert other.query_points(NAME, [1.0, 2.0], limit=5).points
            assert len(other.scroll(NAME, limit=100, with_vectors=True)[0]) == other.count(NAME).count == 70
        assert layout.check(generation.parent / client.generation(NAME)) == 70
