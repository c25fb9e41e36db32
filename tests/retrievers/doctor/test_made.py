"""Audits of collections made with one fault each: over a server's double with the real client, and embedded."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from retrievers.__main__ import main
from tests.support.bm25 import bm25_of
from tests.support.command import call
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import QdrantServer

WORDS = "arm joint encoder motor gripper sensor torque camera lidar wheel planner map".split()
TEXTS = [
    f"The {a} of the robot reads the {b} and then moves the {c} at once."
    for a in WORDS
    for b in WORDS
    for c in WORDS[:2]
]
CUT = "a statement that goes on and on about the"


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


def fill(
    server: QdrantServer,
    texts: Sequence[str] = TEXTS[:60],
    *,
    scale: Sequence[float] = (1.0,),
    average: float = 6.0,
    distance: models.Distance = models.Distance.COSINE,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Make collection `made`: vectors of four dimensions, each of another direction, BM25 weights, a payload."""
    client = QdrantClient(url=server.url, check_compatibility=False)
    client.create_collection(
        "made",
        vectors_config=models.VectorParams(size=4, distance=distance),
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    points = []
    for i, text in enumerate(texts):
        # Spread over the sphere, so that no two are near duplicates.
        direction = [((i * step) % 17 - 8.0) for step in (3, 5, 7)] + [1.0]
        length = sum(x * x for x in direction) ** 0.5 / scale[i % len(scale)]
        vector: Any = {"": [x / length for x in direction], "bm25": bm25_of(text, average)}
        points.append(
            models.PointStruct(id=i, vector=vector, payload={"page_content": text, "metadata": metadata or {}})
        )
    client.upsert("made", points)
    client.close()


def audit(server: QdrantServer, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, dict[str, str]]:
    """Return the findings by check."""
    arguments = ["doctor", "--store.url", server.url, "--collection", "made", "--json", *flags]
    return {finding["check"]: finding for finding in json.loads(call(main, arguments, capsys).out)["findings"]}


@pytest.mark.parametrize(
    ("made", "check", "severity", "seen"),
    [
        ({"texts": [*TEXTS[:58], "", " "]}, "texts/empty", "error", "2 of 60 chunks have no text"),
        ({"texts": [*TEXTS[:50], *["Go on"] * 10]}, "texts/tiny", "warning", "10 of 60 chunks have fewer than 5 words"),
        ({"texts": [*TEXTS[:30], *(f"{text} {CUT}" for text in TEXTS[:30])]},
         "texts/cut", "warning", "30 of 60 chunks end within a sentence"),
        ({"texts": [*TEXTS[:55], *TEXTS[:5]]}, "texts/duplicates", "warning", "5 of 60 texts repeat another"),
        ({"average": 256.0},
         "keyword/average_length", "warning", "weights of 'bm25' were made for an average of 256 terms"),
        ({"scale": (1.0, 7.0), "distance": models.Distance.DOT},
         "vectors/normalised", "warning", "distance Dot, and vectors have lengths from 1 to 7"),
        ({"distance": models.Distance.DOT}, "vectors/threshold", "note", "the distance is dot"),
        ({"metadata": {"title": 7}}, "payload/types", "warning", "values of the wrong type: title × 60"),
        ({}, "payload/address", "note", "no chunk says which page it is from (source_url)"),
    ],
)  # fmt: skip
def test_a_fault_is_found(
    made: dict[str, Any],
    check: str,
    severity: str,
    seen: str,
    server: QdrantServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(server, **made)
    finding = audit(server, capsys)[check]
    assert (finding["severity"], finding["seen"].startswith(seen)) == (severity, True), finding


def test_what_is_in_order_is_not_named(server: QdrantServer, capsys: pytest.CaptureFixture[str]) -> None:
    fill(server, scale=(1.0,), distance=models.Distance.DOT)
    named = audit(server, capsys)
    assert named.keys() == {"vectors/threshold", "vectors/embedded_again", "payload/address", "server/rights"}


@pytest.mark.parametrize("allowed", [None, 100], ids=["a server", "under strict mode"])
def test_a_fault_of_late_points_is_seen_in_a_big_collection(
    allowed: int | None, server: QdrantServer, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"{TEXTS[i % len(TEXTS)]} {i}" for i in range(1_000)]
    fill(server, [*texts, *[""] * 1_000])
    server.rules.strict = {"enabled": True, "max_query_limit": allowed} if allowed else None
    [empty, read] = re.findall(r"\d+", audit(server, capsys)["texts/empty"]["seen"])[:2]
    assert 400 <= int(read) <= 512
    assert 0.35 < int(empty) / int(read) < 0.65


def test_an_older_server_that_draws_nothing_by_chance_shows_its_first_points(
    server: QdrantServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server, [f"{TEXTS[i % len(TEXTS)]} {i}" for i in range(600)])
    refused = Reply.json({"status": {"error": "did not match any variant of untagged enum VectorInput"}}, 400)
    server.fault = Fault(reply=refused, on="points/query")
    done = call(main, ["doctor", "--store.url", server.url, "--collection", "made"], capsys)
    assert "512 points from all over" in " ".join(done.out.split())


def test_near_duplicates_share_vector_and_words(server: QdrantServer, capsys: pytest.CaptureFixture[str]) -> None:
    # The directions repeat every 17 points.
    long = [f"{text} " + " ".join(TEXTS[i : i + 3]) for i, text in enumerate(TEXTS[:17])]
    fill(server, [*long, *(f"{text} Once more." for text in long)])
    near = audit(server, capsys)["texts/near_duplicates"]
    assert near["seen"].startswith("17 pairs among 34 texts are nearly the same, such as points 0 and 17")


def test_the_handbook_is_sound_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "arm.md").write_text(
        "# Arm\n\n" + "\n\n".join(f"## Part {i}\n\n{text}" for i, text in enumerate(TEXTS[:9]))
    )
    store = ["--store.path", tmp_path / "store", "--collection", "pages"]
    assert call(main, ["index", pages, *store], capsys).code == 0
    done = call(main, ["doctor", *store, "--mode", "hybrid"], capsys)
    assert (done.code, done.err) == (0, "")
    head = f"Collection 'pages' at {tmp_path / 'store'}: 9 points; vectors unnamed (256), cosine; sparse bm25;"
    assert " ".join(done.out.split()).startswith(head)
    assert done.out.endswith("0 errors, 0 warnings, 0 notes. Nothing stands against tuning it.\n")
    other = call(main, ["doctor", *store, "--embedding.provider", "cohere"], capsys)
    assert other.code == 1
    assert "ERROR    vectors/model\n         the collection was embedded by wordllama:l2_supercat_256" in other.out


@pytest.mark.parametrize("flag", ["--store.url", "--store.path"])
def test_what_cannot_be_audited_is_a_users_fault(
    flag: str, server: QdrantServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = server.url if flag == "--store.url" else tmp_path / "none"
    done = call(main, ["doctor", flag, place, "--collection", "mode"], capsys)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ") and done.err.count("\n") == 1


def test_a_server_that_starts_is_named(server: QdrantServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.fault = Fault(reply=Reply(status=503))
    done = call(main, ["doctor", "--store.url", server.url, "--store.timeout-s", "0.3"], capsys)
    assert done.code == 2
    assert "answered 503 Service Unavailable" in done.err
