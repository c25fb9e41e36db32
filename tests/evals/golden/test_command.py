"""The golden command: check, import, init."""

import json
from pathlib import Path

import pytest

from evals.golden import main
from retrievers import QdrantRetriever
from retrievers.__main__ import main as retrievers
from tests.support.collections import index_pages, settings

PAGE = "---\ntitle: Topics\n---\n## Rates\n\nAsk for the rate with the hz verb and wait ten seconds.\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "topics.md").write_text(PAGE)
    return folder


def golden(folder: Path, *rows: object) -> Path:
    file = folder / "golden.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def case(quote: str) -> dict[str, object]:
    evidence = {"source_url": "/docs/topics", "heading": "Rates", "quote": quote}
    return {"id": "c1", "query": "how fast?", "evidence": [evidence], "split": "dev"}


def test_a_valid_file_is_counted(docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = golden(tmp_path, case("wait ten seconds"), {"id": "o", "query": "why?", "in_scope": False})
    assert main(["check", str(file), "--docs", str(docs)]) == 0
    assert "2 cases are valid (every piece of evidence found in 1 chunks)" in capsys.readouterr().out


def test_evidence_that_is_not_in_the_pages_is_named(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = golden(tmp_path, case("zzzz qqqq xxxx"))
    assert main(["check", str(file), "--docs", str(docs)]) == 2
    assert f"{file}:1: evidence.0: no chunk of '/docs/topics' holds the quote" in capsys.readouterr().err


def test_evidence_is_looked_for_in_a_collection(docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(f"retriever: {{collection: mine, store: {{path: {tmp_path / 'store'}}}}}\n")
    assert retrievers(["index", str(docs), "--config", str(config), "--quiet"]) == 0
    assert main(["init", "--config", str(config), "--out", str(tmp_path / "new.jsonl")]) == 0
    assert f"evals.golden check {tmp_path / 'new.jsonl'} --config {config}" in capsys.readouterr().out
    right, wrong = case("wait ten seconds"), case("zzzz qqqq xxxx")
    assert main(["check", str(golden(tmp_path, right)), "--config", str(config)]) == 0
    assert "1 cases are valid (every piece of evidence found in 1 chunks)" in capsys.readouterr().out
    assert main(["check", str(golden(tmp_path, wrong)), "--config", str(config)]) == 2
    assert "golden.jsonl:1: evidence.0: no chunk of '/docs/topics' holds the quote" in capsys.readouterr().err
    assert main(["check", str(golden(tmp_path, right)), "--collection", "other", "--config", str(config)]) == 2
    assert "no collection 'other'" in capsys.readouterr().err


def test_a_quote_that_is_nearly_right_is_named(docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = golden(tmp_path, case("Ask for the rate with the hz verb and wait twenty minutes."))
    assert main(["check", str(file), "--docs", str(docs)]) == 2
    assert "1 quotes are not in their page word for word" in capsys.readouterr().err


def test_every_fault_is_listed_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = golden(tmp_path, {"id": "a", "query": "", "in_scope": False}, {"id": "b", "qeury": "x", "in_scope": False})
    assert main(["check", str(file)]) == 2
    shown = capsys.readouterr().err
    assert f"{file}:1: query" in shown
    assert f"{file}:2: query: this field is required" in shown
    assert "qeury: unknown field; did you mean 'query'" in shown


def judged(count: int, verdicts: dict[str, object]) -> list[dict[str, object]]:
    one = {**case("wait ten seconds"), "reference_answer": "ten", "human_verdicts": verdicts}
    return [{**one, "id": f"j{place}"} for place in range(count)]


def test_human_verdicts_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(golden(tmp_path, *judged(3, {"x": 1, "y": 0}), case("wait")))]) == 0
    assert (
        "  human verdicts: 6 in 3 cases, 3 of them useful; to correct a judge takes 100 cases "
        "drawn at random, or 15 that golden label offers first\n" in capsys.readouterr().out
    )
    assert main(["check", str(golden(tmp_path, *judged(100, {"x": 1})))]) == 0
    assert "  human verdicts: 100 in 100 cases, 100 of them useful\n" in capsys.readouterr().out
    assert main(["check", str(golden(tmp_path, case("wait")))]) == 0
    assert "human verdicts" not in capsys.readouterr().out


def test_human_verdicts_on_chunks_of_another_cut_are_pointed_out(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings(store={"path": str(tmp_path / "store")}, collection="pages")
    index_pages(config, docs)
    with QdrantRetriever.open(config, env={}) as retriever:
        [chunk] = retriever.chunks()
    file = golden(tmp_path, *judged(2, {chunk.chunk_id: 1, "old": 0}))
    assert main(["check", str(file), "--docs", str(docs)]) == 0
    said = "2 of the verdicts are on chunks that are not there, as 'old' of case 'j0': is the chunking another one?"
    assert said in capsys.readouterr().out
    assert main(["check", str(golden(tmp_path, *judged(2, {chunk.chunk_id: 1}))), "--docs", str(docs)]) == 0
    assert "not there" not in capsys.readouterr().out


def test_wrong_human_verdicts_are_named_with_their_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*judged(1, {"x": 7}), {**judged(1, {"x": 1})[0], "id": "o", "in_scope": False, "evidence": []}]
    rows += [{**judged(1, {"x": True})[0], "id": "t"}, {**case("wait"), "id": "r", "human_verdict": {"x": 1}}]
    file = golden(tmp_path, *rows)
    assert main(["check", str(file)]) == 2
    shown = capsys.readouterr().err
    assert f"{file}:1: human_verdicts: verdicts must be 1 (useful) or 0, got {{'x': 7}}" in shown
    assert f"{file}:2: an out-of-scope case must not have human_verdicts" in shown
    assert f"{file}:3: human_verdicts.x: Input should be a valid integer, got True" in shown
    assert f"{file}:4: human_verdict: unknown field; did you mean 'human_verdicts'" in shown


def test_an_imported_file_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "lift"}\n')
    (tmp_path / "qrels").write_text("1\td7\t1\n")
    out = tmp_path / "out.jsonl"
    assert main(["import", str(tmp_path), "--qrels", str(tmp_path / "qrels"), "--out", str(out)]) == 0
    assert main(["check", str(out)]) == 0
    assert f"{out}: 1 cases of {tmp_path}, 0 of them out of scope" in capsys.readouterr().out


def test_quiet_says_nothing_but_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = golden(tmp_path, {"id": "a", "query": "how?", "in_scope": False})
    capsys.readouterr()
    assert main(["check", str(file), "--quiet", "--log-file", str(tmp_path / "log")]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "log").exists()
    assert main(["check", str(tmp_path / "none.jsonl"), "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_init_writes_skeletons_that_validate_once_filled_in(docs: Path, tmp_path: Path) -> None:
    store = ["--store.path", str(tmp_path / "store"), "--collection", "mine"]
    assert retrievers(["index", str(docs), *store, "--quiet"]) == 0
    out = tmp_path / "new.jsonl"
    assert main(["init", *store, "--out", str(out)]) == 0
    assert main(["check", str(out)]) == 2, "queries are still to be written"
    rows = [json.loads(line) | {"query": "how do I measure it?"} for line in out.read_text().splitlines()]
    assert main(["check", str(golden(tmp_path, *rows)), "--docs", str(docs)]) == 0


def test_init_replaces_no_file_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = golden(tmp_path)
    assert main(["init", "--out", str(out), "--store.path", str(tmp_path / "none")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_skeletons_are_begun_from_a_retriever_whose_chunks_can_be_listed(tmp_path: Path) -> None:
    out = tmp_path / "golden.jsonl"
    assert main(["init", "--python", "tests.support.foreign:dense", "--count", "3", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [len(row.get("evidence", [])) for row in rows] == [1, 1, 1, *[0] * 10]


def test_skeletons_are_not_begun_from_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "golden.jsonl"
    assert main(["init", "--python", "tests.support.foreign:plain", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "cannot be listed; name the store and collection that it reads from" in said
    assert not out.exists()


@pytest.mark.parametrize(("flag", "least"), [("--count", 1), ("--out-of-scope", 0), ("--seed", 0)])
@pytest.mark.parametrize("number", ["-5", "two", "1.5", "9" * 5_000, ""])
def test_a_number_that_is_none_is_refused(
    flag: str, least: int, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["init", flag, number])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"argument {flag}: expected a whole number of {least} or more, got '" in said
    assert len(said) < 400


def test_a_packaged_experiment_is_known_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = golden(tmp_path, {"id": "a", "query": "how?", "in_scope": False})
    assert main(["check", str(file), "--config", "defalt"]) == 2
    assert "one of cohere, default, spec, found neither; did you mean 'default'?" in capsys.readouterr().err


def test_the_collection_that_an_experiment_makes_is_made_for_golden_data_too(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(
        "retriever: {collection: mine, store: {path: store}}\nindex: {collection: mine}\nsources: {dir: docs}\n"
    )
    file = golden(tmp_path, case("wait ten seconds"))
    assert main(["check", str(file), "--config", str(config)]) == 0
    assert "every piece of evidence found in 1 chunks" in capsys.readouterr().out
