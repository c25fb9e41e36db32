"""The page's calls: the token, the order, faults, and nothing taken that is not on the disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evals.golden.case import Case
from evals.golden.labelling.labels import LabelFile
from evals.golden.labelling.pool import pool
from evals.golden.labelling.server import Work, make_app
from tests.support.observed import make_chunk

CASE = Case(id="q1", query="How fast?", reference_answer="Fast.", in_scope=False)
HEADERS = {"x-token": "secret"}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    pooled = pool([CASE], [{"q1": [make_chunk("a", "First. Second one."), make_chunk("b", "Other.")]}], 0)
    return Work(pooled=pooled, labels=LabelFile(tmp_path / "l.jsonl"), names=("s",), depth=5, judge={("q1", "a"): 1})


@pytest.fixture
def client(work: Work) -> Iterator[TestClient]:
    with TestClient(make_app(work, "secret"), base_url="http://127.0.0.1", headers=HEADERS) as client:
        yield client


def answer(chunk: str, grade: int | None, **fields: Any) -> dict[str, Any]:
    return {"case": "q1", "chunk": chunk, "annotator": "ada", "grade": grade} | fields


def test_all_calls_need_the_token_and_a_host_of_this_machine(work: Work) -> None:
    with TestClient(make_app(work, "secret"), base_url="http://127.0.0.1") as client:
        assert client.get("/").status_code == client.get("/?token=other").status_code == 403
        page = client.get("/?token=secret")
        assert page.status_code == 200 and "NONCE" not in page.text and "default-src 'none'" in str(page.headers)
        for method, path in (("GET", "/state"), ("POST", "/label"), ("POST", "/undo")):
            assert client.request(method, path).status_code == 403
    with TestClient(make_app(work, "secret"), base_url="http://elsewhere.example", headers=HEADERS) as client:
        assert client.get("/state").status_code == 400


def test_a_label_is_on_the_disk_before_the_next_chunk_is_shown(client: TestClient, work: Work) -> None:
    first = client.get("/state", params={"annotator": "ada"}).json()
    assert (first["done"], first["total"], first["case"]["query"], first["place"]) == (0, 2, "How fast?", 1)
    assert "judge" not in str(first) and "agreement" not in first
    chunk = first["chunk"]["id"]
    second = client.post("/label", json=answer(chunk, 2, quotes=[first["chunk"]["text"]], note=" n ")).json()
    assert (second["done"], second["chunk"]["id"] != chunk) == (1, True)
    [kept] = LabelFile(work.labels.path).labels()
    assert (kept.chunk, kept.grade, kept.note, kept.pool, kept.depth) == (chunk, 2, "n", ("s",), 5)
    end = client.post("/label", json=answer(second["chunk"]["id"], 0)).json()
    assert "chunk" not in end
    [line] = end["agreement"]
    assert line.startswith("ada and the judge: the same in ") and " of 1 chunks" in line


def test_undo_gives_the_chunk_back_with_what_was_marked(client: TestClient, work: Work) -> None:
    assert client.post("/undo", params={"annotator": "ada"}).json() == {"error": "there is nothing to undo"}
    chunk = client.get("/state", params={"annotator": "ada"}).json()["chunk"]
    client.post("/label", json=answer(chunk["id"], 3, quotes=[chunk["text"]], note="n"))
    state = client.post("/undo", params={"annotator": "ada"}).json()
    assert (state["done"], state["chunk"]["id"]) == (0, chunk["id"])
    assert state["undone"] == {"grade": 3, "quotes": [chunk["text"]], "note": "n"}
    assert len(LabelFile(work.labels.path).labels()) == 2, "nothing is deleted"


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"quotes": ["not there"]}, 409, "the quote 'not there' is not in the chunk"),
        ({"quotes": [" "]}, 409, "is not in the chunk"),
        ({"chunk": "z"}, 409, "case 'q1' with chunk 'z' is not in the pool"),
        ({"grade": 4}, 422, "less than or equal to 3"),
        ({"annotator": ""}, 422, "at least 1 character"),
        ({"more": 1}, 422, "Extra inputs"),
    ],
)
def test_a_bad_answer_is_refused_and_not_written(
    client: TestClient, work: Work, fields: dict[str, Any], code: int, message: str
) -> None:
    done = client.post("/label", json=answer("a", 1) | fields)
    assert done.status_code == code and message in done.json()["error"]
    assert not work.labels.path.exists()


def test_a_disk_that_takes_no_label_is_told(client: TestClient, work: Work) -> None:
    work.labels.path.mkdir()
    done = client.post("/label", json=answer("a", 1))
    assert done.status_code == 409 and "the label cannot be written" in done.json()["error"]
