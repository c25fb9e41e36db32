"""Opening a folder: what is no store, what is damaged, and what a reader sees of a writer."""

import json
import os
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from retrievers.errors import CollectionNotFoundError, StoreError, StoreUnreachableError
from retrievers.store.edge import EdgeClient, files

NAME = "pages"
PAIR = models.VectorParams(size=2, distance=models.Distance.DOT)


def test_nothing_there(place: Path) -> None:
    with pytest.raises(StoreUnreachableError, match=r"no embedded store at .*: index pages into it first"):
        EdgeClient(place)
    assert not place.exists()
    place.mkdir()
    with pytest.raises(StoreUnreachableError, match="no embedded store"):
        EdgeClient(place)
    EdgeClient(place, create=True).close()
    EdgeClient(place).close()


def test_a_file_is_there(place: Path) -> None:
    place.write_text("x")
    with pytest.raises(StoreUnreachableError, match=r"cannot be opened: (File exists|Not a directory)"):
        EdgeClient(place, create=True)


@pytest.mark.parametrize("create", [False, True])
def test_local_mode_of_qdrant_client(place: Path, create: bool) -> None:
    local = QdrantClient(path=str(place))
    local.create_collection(NAME, PAIR)
    local.close()
    with pytest.raises(StoreError, match=r"local mode, expected one of an embedded store; .* never written to"):
        EdgeClient(place, create=create)
    assert not (place / "edge.json").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "edge.json is damaged: expected format 'retrievers.edge'"),
        ("[]", "is damaged"),
        ('{"format": "other"}', "is damaged"),
        ('{"format": "retrievers.edge", "version": 2}', "has version 2 of its format, expected 1"),
    ],
)
def test_another_format(place: Path, text: str, says: str) -> None:
    place.mkdir()
    (place / "edge.json").write_text(text)
    with pytest.raises(StoreError, match=says):
        EdgeClient(place)


def test_damage(client: EdgeClient) -> None:
    client.create_collection(NAME, PAIR)
    client.create_collection("whole", PAIR)
    folder = client.path / "collections" / NAME
    generation = folder / client.generation(NAME)
    (generation / "collection.json").write_text(json.dumps({"dense": {}}))
    with EdgeClient(client.path) as other, pytest.raises(StoreError, match=r"is damaged: .*remove .* and index again"):
        other.count(NAME)
    generation.rename(folder / "elsewhere")
    with EdgeClient(client.path) as other, pytest.raises(StoreError, match="names a generation that is not there"):
        other.count(NAME)
    (folder / "CURRENT").write_text("../whole")
    with pytest.raises(StoreError, match=r"CURRENT is damaged: .*found '\.\./whole'"):
        client.count(NAME)
    client.upsert("whole", [models.PointStruct(id=1, vector=[1, 1])])
    assert client.count("whole").count == 1, "other collections are not concerned"


def test_a_shard_that_the_engine_cannot_open(client: EdgeClient) -> None:
    client.create_collection(NAME, PAIR)
    shard = client.path / "collections" / NAME / client.generation(NAME) / "shard"
    (shard / "edge_config.json").write_text("{")
    (shard.parent / "sizes.json").unlink()  # as in a collection from before they were kept
    with EdgeClient(client.path) as other, pytest.raises(StoreError, match=r"opening .*the embedded engine says"):
        other.count(NAME)


def test_a_reader_sees_each_generation_at_its_next_call(client: EdgeClient) -> None:
    with EdgeClient(client.path) as reader:
        assert not reader.collection_exists(NAME)
        client.create_collection(NAME, PAIR)
        seen = [(reader.generation(NAME), reader.count(NAME).count)]
        for i in range(3):
            client.upsert(NAME, [models.PointStruct(id=i, vector=[1.0, i])])
            seen.append((reader.generation(NAME), reader.count(NAME).count))
        assert [count for _, count in seen] == [0, 1, 2, 3]
        assert len({generation for generation, _ in seen}) == 4
        assert reader.generation(NAME) == client.generation(NAME)
        client.delete_collection(NAME)
        with pytest.raises(CollectionNotFoundError):
            reader.count(NAME)
        client.create_collection(NAME, PAIR)
        assert reader.count(NAME).count == 0
        assert reader.generation(NAME) not in [generation for generation, _ in seen]


def test_a_generation_that_is_read_stays(client: EdgeClient) -> None:
    client.create_collection(NAME, PAIR)
    folder = client.path / "collections" / NAME
    with EdgeClient(client.path) as reader:
        old = folder / reader.generation(NAME)
        reader.count(NAME)
        client.upsert(NAME, [models.PointStruct(id=1, vector=[1.0, 1.0])])
        client.delete_collection(NAME)
        assert old.is_dir()
    client.create_collection("another", PAIR)
    assert not folder.exists()


def test_copies_keep_holes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "below").mkdir(parents=True)
    with (source / "below" / "page").open("wb") as file:
        for place in (0, 5_000_000, 9_999_990):
            file.seek(place)
            file.write(b"0123456789")
        file.truncate(30_000_000)
    (source / "empty").touch()
    (source / f"{files.HALF_WRITTEN}x").mkdir()
    files.copy_tree(source, target)
    assert (target / "below" / "page").read_bytes() == (source / "below" / "page").read_bytes()
    assert sorted(entry.name for entry in target.iterdir()) == ["below", "empty"]
    if hasattr(os.stat_result, "st_blocks"):
        assert (target / "below" / "page").stat().st_blocks * 512 < 1_000_000


@pytest.mark.parametrize("name", ["edge.json", f"collections/{NAME}/CURRENT"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(place: Path, name: str) -> None:
    with EdgeClient(place, create=True) as client:
        client.create_collection(NAME, vectors_config=PAIR)
    (place / name).unlink()
    os.mkfifo(place / name)
    with pytest.raises(StoreError, match=r"found a pipe, which might never end"), EdgeClient(place) as reader:
        reader.count(NAME)


def test_a_store_that_nests_without_end_is_damaged(place: Path) -> None:
    EdgeClient(place, create=True).close()
    (place / "edge.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"edge\.json is damaged"):
        EdgeClient(place)
