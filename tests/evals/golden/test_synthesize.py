"""`golden synthesize` on the handbook, with the real client against a model on the loopback."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evals.golden import main
from retrievers.__main__ import main as retrievers
from tests.support.chat_faults import When
from tests.support.command import Done, call
from tests.support.writing_model import PASSAGE, Manner, WritingModel, copies, judges, says, well, writes

COUNTS = "factual=6,comparison=3,near_domain=3,general=1"
Synthesize = Callable[..., Done]


@pytest.fixture
def synthesize(
    tmp_path: Path, handbook: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Synthesize:
    def run(model: WritingModel, *flags: str, docs: Path = handbook / "docs" / "module-0-foundations") -> Done:
        monkeypatch.setenv("OPENAI_API_KEY", model.key)
        given = ["--per-type", COUNTS, "--out", str(tmp_path / "golden.jsonl"), *flags]
        where = [] if "--collection" in flags else ["--docs", str(docs)]
        store = ["--judge.cache-path", str(tmp_path / "verdicts.sqlite")]
        return call(main, ["synthesize", *model.flags, *store, *where, *given], capsys)

    return run


def written(folder: Path, name: str = "golden.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_a_model_that_writes_well_gives_a_valid_file(
    synthesize: Synthesize, tmp_path: Path, handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with WritingModel() as model:
        done = synthesize(model, docs=handbook / "docs")
    assert (done.code, done.err) == (0, "")
    cases = written(tmp_path)
    assert Counter(case["query_type"] for case in cases) == {
        "factual": 6, "comparison": 3, "near_domain": 3, "general": 1
    }  # fmt: skip
    by_split = {
        split: {
            evidence["source_url"] for case in cases if case["split"] == split for evidence in case.get("evidence", [])
        }
        for split in ("dev", "test")
    }
    assert by_split["dev"] and by_split["test"] and not by_split["dev"] & by_split["test"]
    assert all(len(case["evidence"]) == 2 for case in cases if case["query_type"] == "comparison")
    assert len({chat.prompt for chat in model.chats}) == len(model.chats)
    valid = call(main, ["check", tmp_path / "golden.jsonl", "--docs", handbook / "docs"], capsys)
    assert (valid.code, "13 cases are valid (every piece of evidence found" in valid.out) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manner", "kept", "reason"),
    [
        (copies, 4, "dropped 9: the query copies the passage"),
        (writes(quotes=["Robots never fail."]), 4, "dropped 9: a quote does not stand in the passage word for word"),
        (writes(query="How hot may a drive run at most?"), 5, "the query nearly repeats another one"),
        (judges("Review", follows=0), 4, "dropped 9: the reference answer does not follow from the quotes"),
        (judges("Review", standalone=0), 4, "dropped 9: the query cannot be understood without the passage"),
        (judges("Review", follows=7), 4, "dropped 9: the model gave no usable answer"),
        (judges("Answering", standalone=0), 9, "dropped 4: the query cannot be understood without the passage"),
        (judges("Answering", answering=[2]), 9, "dropped 4: a passage of the collection answers the query"),
    ],
    ids=["copies", "misquotes", "repeats", "unsupported", "not alone", "unchecked", "unclear", "answered"],
)
def test_what_fails_a_check_is_dropped_with_its_reason(
    synthesize: Synthesize, tmp_path: Path, manner: Manner, kept: int, reason: str
) -> None:
    with WritingModel(manner) as model:
        done = synthesize(model)
    assert (done.code, done.err) == (0, "")
    assert reason in done.out
    assert len(written(tmp_path)) == kept


def test_dropped_queries_are_replaced_by_ones_to_further_passages_and_nothing_is_bought_twice(
    synthesize: Synthesize, tmp_path: Path
) -> None:
    def copies_some(schema: str, prompt: str) -> Any:
        passage = PASSAGE.findall(prompt)[0][2] if schema == "DraftCase" else ""
        return (copies if len(passage) % 2 else well)(schema, prompt)

    flags = ["--per-type", "factual=12,near_domain=1"]
    with WritingModel(copies_some) as model:
        done = synthesize(model, *flags)
        cases, bought = written(tmp_path), len(model.chats)
        assert done.code == 0 and "missing" not in done.out
        row = next(line.split() for line in done.out.splitlines() if line.startswith("  factual"))
        assert row[:3] == ["factual", "12", "12"] and int(row[3]) > 0
        assert Counter(case["query_type"] for case in cases) == {"factual": 12, "near_domain": 1}
        assert len({chat.prompt for chat in model.chats}) == len(model.chats)
        assert synthesize(model, *flags, "--force").code == 0
        assert (len(model.chats), written(tmp_path)) == (bought, cases)


@pytest.mark.parametrize("text", ["The passage looks useful.", "", '{"answer": 42}'], ids=["prose", "empty", "keys"])
def test_a_model_without_a_usable_answer_writes_no_file(synthesize: Synthesize, tmp_path: Path, text: str) -> None:
    with WritingModel(says(text)) as model:
        done = synthesize(model, "--per-type", "factual=4")
    assert done.code == 2
    assert "dropped 4: the model gave no usable answer" in done.out
    assert "not written: none of the 4 queries passed its checks" in done.err
    assert not (tmp_path / "golden.jsonl").exists()


def test_a_model_that_cannot_be_reached_ends_it_at_the_first_call(synthesize: Synthesize, tmp_path: Path) -> None:
    with WritingModel() as model, model.faulty("401"):
        done = synthesize(model)
    assert (done.code, len(model.chats)) == (2, 1)
    assert "refuses every call" in done.err
    assert not (tmp_path / "golden.jsonl").exists()


@pytest.mark.slow
def test_faults_of_the_server_in_between_are_survived(synthesize: Synthesize, tmp_path: Path) -> None:
    with WritingModel() as model, model.faulty("503", When(share=0.2, seed=3)):
        assert synthesize(model).code == 0
    assert len(written(tmp_path)) == 13


def test_a_plan_tells_the_price_and_a_second_run_buys_nothing(synthesize: Synthesize, tmp_path: Path) -> None:
    prices = ["--judge.prices", "{openai:command-a-03-2025: {input: 1, output: 10}}"]
    with WritingModel() as model:
        plan = synthesize(model, "--plan", *prices)
        assert (plan.code, len(model.chats), (tmp_path / "golden.jsonl").exists()) == (0, 0, False)
        assert "13 queries to " in plan.out and ": 26 calls of openai:command-a-03-2025\n" in plan.out
        assert " USD\n" in plan.out
        done = synthesize(model, *prices)
        bought, first = len(model.chats), written(tmp_path)
        assert (done.code, bought) == (0, 26)
        planned, paid = (float(re.findall(r"([\d.]+) USD", out)[0]) for out in (plan.out, done.out))
        assert 0.3 < planned / paid < 3
        assert synthesize(model, "--force").code == 0
        assert (len(model.chats), written(tmp_path)) == (bought, first)


def test_a_spent_budget_keeps_what_is_finished_and_the_next_run_buys_the_rest(
    synthesize: Synthesize, tmp_path: Path
) -> None:
    with WritingModel() as model:
        few = ["--judge.max-concurrency", "1"]
        done = synthesize(model, "--judge.budget.calls", "12", *few)
        assert (done.code, len(model.chats)) == (3, 12)
        assert "incomplete: the budget of 12 calls is spent" in done.err
        finished = written(tmp_path, "golden.partial.jsonl")
        assert 0 < len(finished) < 13 and not (tmp_path / "golden.jsonl").exists()
        assert synthesize(model, *few).code == 0
    assert len(model.chats) == 26
    assert [case for case in written(tmp_path) if case in finished] == finished


@pytest.mark.slow
def test_queries_to_a_collection(synthesize: Synthesize, tmp_path: Path, handbook: Path) -> None:
    where = ["--store.path", str(tmp_path / "store"), "--collection", "mine"]
    assert retrievers(["index", str(handbook / "docs"), *where, "--quiet"]) == 0
    config = tmp_path / "experiment.yaml"
    with WritingModel(judges("Answering", answering=[1])) as model:
        config.write_text(
            f"name: mine\nretriever: {{collection: mine, store: {{path: store}}}}\n"
            f"judge: {{model: 'openai:command-a-03-2025', base_url: '{model.base_url}'}}\n"
        )
        done = synthesize(model, "--config", str(config), *where)
    assert done.code == 0, done.err
    assert "9 cases to 594 chunks of collection 'mine'" in done.out
    [line] = [line for line in done.out.splitlines() if "answers the query" in line]
    assert ".md:" in line, "the nearest chunk is named"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--per-type", "factul=3"], "unknown query type 'factul'; did you mean 'factual'"),
        (["--per-type", "factual"], "expected TYPE=NUMBER, such as factual=20, got 'factual'"),
        (["--per-type", "factual=-1"], "expected TYPE=NUMBER"),
        (["--per-type", "factual=0"], "asks for no query"),
        (["--per-type", "factual=1,factual=2"], "factual is given twice"),
        (["--near", "2"], "expected a cosine above 0, of at most 1"),
        (["--docs", "/nowhere"], "expected a folder of"),
        (["--personas", "f"], "--personas is gone: "),
        (["--redraws", "3"], "--redraws is gone: "),
        (["--language", "German"], "--language is gone: "),
        (["--judge.model", "nope"], "expected provider:model"),
    ],
)
def test_bad_input_is_refused_before_any_call(synthesize: Synthesize, flags: list[str], message: str) -> None:
    with WritingModel() as model:
        done = synthesize(model, *flags)
        assert model.chats == []
    assert done.code == 2
    assert message in done.err and "Traceback" not in done.err


def test_a_file_is_not_replaced_unasked(synthesize: Synthesize, tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text("mine")
    with WritingModel() as model:
        done = synthesize(model)
    assert (done.code, model.chats) == (2, [])
    assert "exists already" in done.err
    assert (tmp_path / "golden.jsonl").read_text() == "mine"


def test_without_a_model_there_is_a_message(tmp_path: Path, handbook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(main, ["synthesize", "--docs", handbook / "docs", "--out", tmp_path / "g.jsonl"], capsys)
    assert done.code == 2
    assert "needs a chat model that writes and judges: --judge.model" in done.err


def test_pages_without_text(synthesize: Synthesize, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "empty.md").write_text("---\ntitle: Nothing\n---\n")
    with WritingModel(well) as model:
        done = synthesize(model, docs=tmp_path / "docs")
    assert (done.code, model.chats) == (2, [])
    assert "empty.md: the page has no content" in done.err


def test_a_collection_whose_text_is_under_another_key(synthesize: Synthesize, tmp_path: Path, handbook: Path) -> None:
    where = ["--store.path", str(tmp_path / "store"), "--collection", "mine"]
    assert retrievers(["index", str(handbook / "docs"), *where, "--quiet"]) == 0
    with WritingModel(well) as model:
        done = synthesize(model, *where, "--metadata.text-key", "body")
    assert (done.code, model.chats) == (2, [])
    assert "collection 'mine': none of its 594 chunks holds text" in done.err
    assert "expected it under payload key 'body'" in done.err
