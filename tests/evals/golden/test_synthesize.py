"""`golden synthesize` on the handbook, with the real client against a model on the loopback; and its own checks."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from evals.golden.prompts import DraftCase
from evals.golden.writing import NO_QUERY, NO_QUOTE, UNSUPPORTED, text_objection
from retrievers.records import Chunk
from retrievers.terminal.commands import main as retrievers
from tests.support.command import Done
from tests.support.writing_model import PASSAGE, Manner, WritingModel, copies, judges, well

COUNTS = "factual=6,comparison=3,near_domain=3,general=1"
Synthesize = Callable[..., Done]


@pytest.fixture
def synthesize(golden: Synthesize, tmp_path: Path, handbook: Path, monkeypatch: pytest.MonkeyPatch) -> Synthesize:
    def run(model: WritingModel, *flags: str, docs: Path = handbook / "docs" / "module-0-foundations") -> Done:
        monkeypatch.setenv("OPENAI_API_KEY", model.key)
        given = ["--per-type", COUNTS, "--out", str(tmp_path / "golden.jsonl"), *flags]
        where = [] if "--collection" in flags else ["--docs", str(docs)]
        store = ["--judge.cache-path", str(tmp_path / "verdicts.sqlite")]
        return golden("synthesize", *model.flags, *store, *where, *given)

    return run


def written(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "golden.jsonl").read_text().splitlines()]


def test_a_model_that_writes_well_gives_a_valid_file_at_the_planned_price_and_once(
    golden: Synthesize, synthesize: Synthesize, tmp_path: Path, handbook: Path
) -> None:
    whole, file = handbook / "docs", tmp_path / "golden.jsonl"
    prices = ["--judge.prices", "{openai:command-a-03-2025: {input: 1, output: 10}}"]
    prices += ["--judge.second.model", "openai:x", "--judge.second.sample", "auto"]
    with WritingModel() as model:
        plan = synthesize(model, "--plan", *prices, docs=whole)
        assert (plan.code, len(model.chats), file.exists()) == (0, 0, False), plan.err
        assert "13 queries to " in plan.out and ": 26 calls of openai:command-a-03-2025\n" in plan.out
        done = synthesize(model, *prices, docs=whole)
        assert (done.code, done.err, len(model.chats)) == (0, "", 26)
        assert len({chat.prompt for chat in model.chats}) == 26
        planned, paid = (float(re.findall(r"([\d.]+) USD", out)[0]) for out in (plan.out, done.out))
        assert 0.3 < planned / paid < 3
        cases = written(tmp_path)
        assert synthesize(model, "--force", docs=whole).code == 0
        assert (len(model.chats), written(tmp_path)) == (26, cases)
    types = Counter(case["query_type"] for case in cases)
    assert ",".join(f"{name}={count}" for name, count in types.items()) == COUNTS
    pages: dict[str, set[str]] = {"dev": set(), "test": set()}
    for case in cases:
        pages[case["split"]] |= {evidence["source_url"] for evidence in case.get("evidence", [])}
    assert pages["dev"] and pages["test"] and not pages["dev"] & pages["test"]
    assert all(len(case["evidence"]) == 2 for case in cases if case["query_type"] == "comparison")
    valid = golden("check", file, "--docs", whole)
    assert (valid.code, "13 cases are valid (every piece of evidence leads" in valid.out) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("manner", "kept", "reason"),
    [
        (judges("DraftCase", query="How hot may a drive run at most?"), 5, "the query nearly repeats another one"),
        (judges("Review", follows=0), 4, "dropped 9: the reference answer does not follow from the quotes"),
        (judges("Review", standalone=0), 4, "dropped 9: the query cannot be understood without the passage"),
        (judges("Review", follows=7), 4, "dropped 9: the model gave no usable answer"),
        (judges("Answering", standalone=0), 9, "dropped 4: the query cannot be understood without the passage"),
        (judges("Answering", answering=[11]), 9, "dropped 4: a passage of the collection answers the query"),
    ],
    ids=["repeats", "unsupported", "not alone", "unchecked", "unclear", "answered"],
)
def test_what_fails_a_check_is_dropped_with_its_reason(
    synthesize: Synthesize, tmp_path: Path, manner: Manner, kept: int, reason: str
) -> None:
    with WritingModel(manner) as model:
        done = synthesize(model)
    assert (done.code, done.err) == (0, "")
    assert reason in done.out and len(written(tmp_path)) == kept


def test_dropped_queries_are_told_and_nothing_is_bought_twice(synthesize: Synthesize, tmp_path: Path) -> None:
    def copies_some(schema: str, prompt: str) -> Any:
        passage = PASSAGE.findall(prompt)[0][2] if schema == "DraftCase" else ""
        return (copies if len(passage) % 2 else well)(schema, prompt)

    flags = ["--per-type", "factual=12,near_domain=1"]
    with WritingModel(copies_some) as model:
        done = synthesize(model, *flags)
        cases, bought = written(tmp_path), len(model.chats)
        [(kept, dropped)] = re.findall(r"  factual: (\d+) of 12 kept, (\d+) dropped", done.out)
        assert done.code == 0 and int(kept) + int(dropped) == 12 and 0 < int(dropped) < 12
        assert Counter(case["query_type"] for case in cases) == {"factual": int(kept), "near_domain": 1}
        assert len({chat.prompt for chat in model.chats}) == len(model.chats)
        assert synthesize(model, *flags, "--force").code == 0
        assert (len(model.chats), written(tmp_path)) == (bought, cases)


def test_more_of_a_type_keep_the_first_and_begin_at_other_passages(synthesize: Synthesize, tmp_path: Path) -> None:
    with WritingModel() as model:
        assert synthesize(model, "--out-of-scope", "3").code == 0
        assert [(row["in_scope"], row["query_type"]) for row in written(tmp_path)] == [(False, "near_domain")] * 3
        model.requests.clear()
        assert synthesize(model, "--per-type", "factual=4,keyword=1", "--force").code == 0
        first, bought = written(tmp_path), len(model.chats)
        done = synthesize(model, "--per-type", "factual=9,keyword=1", "--force")
    assert f"  10 calls, {bought} cached, " in done.out, done.out
    assert [case for case in written(tmp_path) if case in first] == first
    passages = [PASSAGE.findall(chat.prompt)[0][2] for chat in model.chats if PASSAGE.search(chat.prompt)]
    assert len(passages) == len({*passages}) == 10
    assert {case["split"] for case in first} == {"dev", "test"}


@pytest.mark.parametrize("text", ["The passage looks useful.", "", '{"answer": 42}'], ids=["prose", "empty", "keys"])
def test_no_usable_answer_or_a_refused_key_writes_no_file(synthesize: Synthesize, tmp_path: Path, text: str) -> None:
    with WritingModel(lambda *_: text) as model:
        done = synthesize(model, "--per-type", "factual=4")
        assert done.code == 2 and "dropped 4: the model gave no usable answer" in done.out
        assert "not written: none of the 4 queries passed its checks" in done.err
        model.requests.clear()
        with model.faulty("401"):
            refused = synthesize(model, "--per-type", "factual=9")
        assert (refused.code, len(model.chats)) == (2, 1) and "failed at the first call" in refused.err
    assert not (tmp_path / "golden.jsonl").exists()


def test_a_spent_budget_or_a_dead_server_keeps_the_answers_and_the_next_buys_the_rest(
    synthesize: Synthesize, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evals.judge.asking.BASE_S", 0.0)
    with WritingModel() as model:
        few = ["--judge.max-concurrency", "1"]
        with model.faulty("500", range(7, 10_000)):
            done = synthesize(model, *few)
        assert done.code == 3 and "incomplete: " in done.err and not (tmp_path / "golden.jsonl").exists()
        model.requests.clear()
        done = synthesize(model, "--judge.budget.calls", "12", *few)
        assert (done.code, len(model.chats)) == (3, 12)
        assert "incomplete: the budget of 12 calls is spent" in done.err
        assert "the same command continues from here" in done.err and not (tmp_path / "golden.jsonl").exists()
        assert synthesize(model, *few).code == 0
    assert len(model.chats) == 20 and len(written(tmp_path)) == 13


@pytest.mark.slow
def test_queries_to_a_collection(synthesize: Synthesize, tmp_path: Path, handbook: Path) -> None:
    where = ["--store.path", str(tmp_path / "store"), "--collection", "mine"]
    assert retrievers(["index", str(handbook / "docs"), *where, "--quiet"]) == 0
    config = tmp_path / "experiment.yaml"
    with WritingModel(judges("Answering", answering=[1])) as model:
        config.write_text(
            "name: mine\nretriever: {collection: mine, store: {path: store}}\n"
            "judge: {prices: {'openai:command-a-03-2025': {input: 1, output: 10}}}\n"
        )
        done = synthesize(model, "--config", str(config), *where)
    assert done.code == 0, done.err
    assert "9 cases to 591 chunks of collection 'mine'" in done.out and " USD\n" in done.out
    [line] = [line for line in done.out.splitlines() if "answers the query" in line]
    assert ".md:" in line, "the nearest chunk is named"


def test_bad_input_is_refused_before_any_call_and_no_file_is_replaced_unasked(
    golden: Synthesize, synthesize: Synthesize, tmp_path: Path, handbook: Path, snapshot: SnapshotAssertion
) -> None:
    refused = [f"--per-type={given}" for given in ("factul=3", "factual", "factual=0", "factual=1,factual=2")]
    where = ["--store.path", str(tmp_path / "store"), "--collection", "mine"]
    assert retrievers(["index", str(handbook / "docs" / "module-0-foundations"), *where, "--quiet"]) == 0
    with WritingModel() as model:
        done = [synthesize(model, flag) for flag in (*refused, "--docs=/nowhere", "--judge.model=nope")]
        done.append(synthesize(model, *where, "--metadata.text-key", "body"))
        (tmp_path / "golden.jsonl").write_text("mine")
        done.append(synthesize(model))
        assert model.chats == [] and (tmp_path / "golden.jsonl").read_text() == "mine"
    done.append(golden("synthesize", "--docs", tmp_path, "--out", tmp_path / "g.jsonl"))
    assert [each.err.replace(str(tmp_path), "FOLDER") for each in done] == snapshot
    assert {each.code for each in done} == {2}


# The checks that need no model

TEXT = (
    "Inverse kinematics searches the joint angles that put the gripper at a pose.\nIt has no solution for a pose out "
    "of reach, and several where the arm has more joints than the pose has coordinates."
)
PASSAGE_IK = Chunk(chunk_id="ik", point_id="ik", text=TEXT)
OTHER = Chunk(chunk_id="topic", point_id="topic", text="A topic is a named channel between nodes of a robot.")
RIGHT = DraftCase(
    query="When can a robot arm reach a target in more than one way?",
    reference_answer="When it has more joints than the pose has coordinates.",
    quotes=["several where the arm has more joints  than the pose has coordinates"],
)


def test_each_fault_is_objected_to() -> None:
    for kind, changes, passages in (
        ("", {}, [PASSAGE_IK]),
        (NO_QUERY, {"query": " "}, [PASSAGE_IK]),
        (NO_QUERY, {"query": "why " * 61}, [PASSAGE_IK]),
        ("the query copies the passage", {"query": TEXT.splitlines()[0].upper()}, [PASSAGE_IK]),
        (NO_QUOTE, {"quotes": []}, [PASSAGE_IK]),
        (NO_QUOTE, {"quotes": ["the joint"]}, [PASSAGE_IK]),
        (NO_QUOTE, {"quotes": [*RIGHT.quotes, "It has a solution"]}, [PASSAGE_IK]),
        (UNSUPPORTED, {"reference_answer": " "}, [PASSAGE_IK]),
        (NO_QUOTE, {}, [PASSAGE_IK, OTHER]),
        ("", {"quotes": [*RIGHT.quotes, "a named channel between nodes"]}, [PASSAGE_IK, OTHER]),
    ):
        given = text_objection(RIGHT.model_copy(update=changes), passages, len(passages))
        assert (given[0] if given else "") == kind
