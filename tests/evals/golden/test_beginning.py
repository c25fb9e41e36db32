"""`golden init`, `import` and `check`: skeletons, tables of other columns, contexts found in the pages, faults."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from scipy import stats
from syrupy.assertion import SnapshotAssertion

from evals.cases.case import Case
from evals.golden.beginning import skeletons
from evals.golden.check import FEWEST_CHANGED, USUAL, copied_share, power, smallest_difference
from evals.golden.chunks import prose, spread
from evals.run import main as run
from evals.stats.paired import sign_flip
from retrievers.records import Chunk
from retrievers.terminal.commands import main as retrievers
from tests.support.command import Done, call
from tests.support.experiment import make_experiment
from tests.support.indexing import write_pages
from tests.support.observed import make_case

Command = Callable[..., Done]
STEPPER = "A stepper turns at up to a thousand revolutions each minute before it loses steps."
RATE = "Ask for the rate of a channel with the hz verb,\nand wait for ten seconds until it is steady."


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    motors, topics = f"title: Motors\n---\n## Speed\n\n{STEPPER}\n", f"title: Topics\n---\n## Rates\n\n{RATE}\n"
    return write_pages(tmp_path / "docs", {"motors.md": f"---\n{motors}", "topics.md": f"---\n{topics}"})


@pytest.fixture
def imported(golden: Command, tmp_path: Path) -> Command:
    return lambda source, *flags: golden("import", source, "--force", "--out", tmp_path / "out.jsonl", *flags)


def cases(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_of_other_columns(golden: Command, imported: Command, tmp_path: Path, docs: Path, delimiter: str) -> None:
    table = tmp_path / "table.csv"
    rows = [
        ["question", "truth", "answerable", "passage", "unused"],
        ["How quick is a stepper?", "1,000 rpm", "yes", STEPPER, "x"],
        ["Who won the cup?", "", "no", "", "x"],
    ]
    table.write_text("".join(delimiter.join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    names = ["query=question", "reference_answer=truth", "in_scope=answerable", "contexts=passage"]
    done = imported(table, "--docs", docs, *(f for name in names for f in ("--column", name)))
    assert done.code == 0, done.err
    assert "2 cases of" in done.out and "1 of them out of scope" in done.out
    evidence = [{"quote": STEPPER}]
    assert cases(tmp_path) == [
        {"id": "q001", "query": "How quick is a stepper?", "reference_answer": "1,000 rpm", "evidence": evidence},
        {"id": "q002", "query": "Who won the cup?", "in_scope": False},
    ]
    (docs / "broken.md").write_text("---\ntitle: [\n---\n# A\n\ntext\n")
    checked = golden("check", tmp_path / "out.jsonl", "--docs", docs)
    assert checked.code == 0 and "broken.md: line 2: " in checked.err


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_other_sources_and_ids_and_what_only_a_judge_can_score(imported: Command, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "made"
    made = Dataset.from_list([{"question": f"how {n}?", "gold": ["c1", f"d{n}"]} for n in range(3)])
    place.mkdir()
    getattr(made, "to_parquet" if kind == "parquet" else "to_json")(str(place / f"train.{kind}"))
    imported(place, "--column", "query=question", "--column", "relevant_ids=gold")
    assert [case["relevant_ids"] for case in cases(tmp_path)] == [{"c1": 1, f"d{n}": 1} for n in range(3)]
    done = imported(place, "--column", "query=question")
    assert f"next: python -m evals.golden check {tmp_path / 'out.jsonl'}, and label what has no evidence" in done.out


def test_passages_without_a_page_are_imported_and_found_or_told_by_the_check(
    golden: Command, imported: Command, tmp_path: Path, docs: Path
) -> None:
    texts = [
        "up to a thousand revolutions each minute",
        " ".join(RATE.split()),
        f"Intro. {STEPPER} And more.",
        "Zebras have stripes on all of their legs.",
    ]
    rows = [{"user_input": f"How {n}?", "reference_contexts": [text]} for n, text in enumerate(texts)]
    (tmp_path / "ragas.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = imported(tmp_path / "ragas.jsonl", "--docs", docs, "--metadata.nested-under", "")
    assert [case["evidence"] for case in cases(tmp_path)] == [[{"quote": text}] for text in texts]
    assert f"check {tmp_path / 'out.jsonl'} --docs {docs} --base-url /docs --metadata.nested-under ''" in done.out
    told = golden("check", tmp_path / "out.jsonl", "--docs", docs).err
    assert "out.jsonl:4: evidence.0: no chunk holds half of the quote 'Zebras" in told and told.count("evidence.") == 1


@pytest.mark.parametrize("kind", ["pages", "collection"])
def test_a_long_passage_is_found(golden: Command, imported: Command, tmp_path: Path, docs: Path, kind: str) -> None:
    text = f"## Speed\n\n{STEPPER}\n\n## Rates\n\n{RATE}\n\n## Ends\n\n{STEPPER[::-1]}"
    (docs / "both.md").write_text(f"---\ntitle: Both\n---\n{text}\n")
    rows = [{"user_input": "How?", "reference_contexts": [text], "split": name} for name in ("dev", "test")]
    (tmp_path / "ragas.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--docs", str(docs), "--base-url", "/x"]
    if kind == "collection":
        flags = ["--store.path", str(tmp_path / "s"), "--collection", "own"]
        assert retrievers(["index", str(docs), "--base-url", "/x", *flags, "--quiet"]) == 0
    done = imported(tmp_path / "ragas.jsonl", "--split", "dev", *flags)
    [case] = cases(tmp_path)
    assert case["evidence"] == [{"quote": text}]
    *_, command = done.out.strip().partition("next: python -m evals.golden ")
    assert golden(*command.removesuffix(", and label what has no evidence").split()).code == 0
    assert "exists already" in golden("import", tmp_path / "ragas.jsonl", "--out", tmp_path / "out.jsonl").err


def test_faults_are_named_and_nothing_is_written(
    imported: Command, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    told = [imported("someone/data")]
    for text, *columns in (
        ("question\nhow?\n",),
        ("query\nhow?\n", "query=questions"),
        ("query\nhow?\n", "qury=query"),
        ("query\nhow?\n", "query"),
        ("query,tags\nhow?,x\n,y\n",),
        ("query\n",),
    ):
        (tmp_path / "table.csv").write_text(text)
        told.append(imported(tmp_path / "table.csv", *(f"--column={one}" for one in columns)))
    assert [done.err.replace(str(tmp_path), "FOLDER") for done in told] == snapshot
    assert {done.code for done in told} == {2} and not (tmp_path / "out.jsonl").exists()


def test_init_writes_skeletons_that_are_valid_once_filled_in(golden: Command, docs: Path, tmp_path: Path) -> None:
    config, out = tmp_path / "mine.yaml", tmp_path / "out.jsonl"
    config.write_text("retriever: {collection: mine, store: {path: store}}\n")
    assert retrievers(["index", str(docs), "--config", str(config), "--quiet"]) == 0
    done = golden("init", "--config", config, "--out", out)
    assert "12 skeleton cases out of 2 chunks; write" in done.out and f"check {out} --config {config}" in done.out
    rows = cases(tmp_path)
    assert {row["evidence"][0]["source_url"] for row in rows[:2]} == {"/docs/motors", "/docs/topics"}
    assert golden("check", out).code == 2, "queries are still to be written"
    out.write_text("".join(json.dumps(row | {"query": f"how is {row['id']}?"}) + "\n" for row in rows))
    assert golden("check", out, "--docs", docs).code == 0
    assert "exists already" in golden("init", "--config", config, "--out", out).err


def test_the_users_own_retriever_is_sampled_where_its_chunks_can_be_listed(golden: Command, tmp_path: Path) -> None:
    begin = ["init", "--count", "3", "--out", tmp_path / "out.jsonl", "--python"]
    assert "lists no chunks; name the store" in golden(*begin, "tests.support.foreign:plain").err
    assert golden(*begin, "tests.support.foreign:dense").code == 0
    assert [len(row.get("evidence", [])) for row in cases(tmp_path)] == [1, 1, 1, *[0] * 10]


def chunk(page: str, section: str, number: int) -> Chunk:
    text = f"Passage {number} of {section} on page {page} has enough words to be prose."
    name = f"{page}-{section}-{number}"
    return Chunk(chunk_id=name, point_id=name, text=text, source_url=f"/docs/{page}", section_path=section)


# Pages of 40, 20, 10 and 10 chunks, each in two sections, one of which has three times as many as the other.
CHUNKS = [
    chunk(page, "long" if number % 4 else "short", number)
    for page, size in {"a": 40, "b": 20, "c": 10, "d": 10}.items()
    for number in range(size)
]
CODE = Chunk(chunk_id="code", point_id="p", text="```python\nx = f(y[0])\n```", source_url="/docs/9")


def test_each_page_has_its_turn_before_any_has_a_second_one_and_code_only_where_there_is_nothing_else() -> None:
    order = spread([CODE, *CHUNKS], 0)
    by_id = {one.chunk_id: one for one in CHUNKS}
    assert {one.chunk_id: one for one in order} == by_id and len(order) == len(CHUNKS), "code has no prose"
    turns = [Counter(one.page for one in order[:count]) for count in range(0, 44, 4)]
    assert all(set(turn.values()) == {number} for number, turn in enumerate(turns) if number)
    copies = [replace(CHUNKS[0], chunk_id="copy"), *CHUNKS]
    assert {one.chunk_id for one in spread(copies, 0)[-2:]} == {"copy", CHUNKS[0].chunk_id}, "which one is returned?"
    assert spread(CHUNKS[::-1], 0) == order != spread(CHUNKS, 1)
    rows = skeletons(CHUNKS, 4, 2, seed=1)
    assert len({row["evidence"][0]["source_url"] for row in rows[:4]}) == 4
    assert {Case.model_validate(row | {"query": "what is it?"}).split for row in rows} == {"dev", "test"}
    assert len(skeletons(CHUNKS, 100, 2, seed=0)) == 82 and skeletons([], 1, 0, seed=0) == []
    assert [row["evidence"][0]["quote"] for row in skeletons([CODE], 9, 0, seed=0)] == ["```python x = f(y[0]) ```"]


SENTENCE = "An encoder counts the turns of a joint, and a resolver gives its angle."


def test_prose_is_told_from_code_tables_and_links() -> None:
    for text, found in (
        (f"```python\nx = 1\n```\n\n{SENTENCE}\n```python\nangle of the joint\n", SENTENCE),
        (f"x = read(port)[0]\nreturn x\n```\n\n{SENTENCE}", SENTENCE),  # cut inside a block of code
        (f"| a | b |\n|---|---|\n\n- [Encoders](/a.md)\n- [Joints](/b.md)\n\nShort one.\n\n{SENTENCE}", SENTENCE),
        ("It is so.\n\nIt is.", "It is so."),
        ("x[0], y = read(port, raw=True)\nreturn {x[0]: y}", ""),
    ):
        assert prose(text) == found


# `golden check`; `tests/test_shipped.py` has what it says of the handbook

ASK = "Ask for the rate of a channel with the hz verb and wait for ten seconds."
PAGES = {
    "motors": f"## Speed\n\n{STEPPER}\n",
    "again": f"## Speed\n\n{STEPPER.replace('loses', 'loses its')}\n",
    "topics": f"## Rates\n\n{ASK}\n",
    "unread": "## Nothing\n\nThis page is about something that no query asks about at all.\n",
}
Row = dict[str, Any]


def case(name: str, query: str, quote: str, page: str, split: str = "dev", **more: Any) -> Row:
    evidence = [{"source_url": f"/docs/{page}", "quote": quote}]
    return {"id": name, "query": query, "evidence": evidence, "split": split, "query_type": "factual", **more}


DOUBTFUL = [
    case("same", "How fast does a stepper motor turn?", STEPPER, "motors"),
    case("across", "how fast does a stepper motor turn", STEPPER, "motors", "test"),
    case("nearly", "How fast does the stepper motor turn?", STEPPER, "motors"),
    case("copied", "Who turns at up to a thousand revolutions each minute?", STEPPER, "motors"),
    case("stands", "wait for TEN seconds?", ASK, "topics"),
    case("short", "ten seconds", ASK.replace("ten", "20"), "topics"),
    case("twice", "What is the top pace of that drive?", STEPPER, "motors"),
    {"id": "outside", "query": "ten seconds!", "in_scope": False, "query_type": "general", "split": "test"},
    {"id": "bare", "query": "and this one?"},
]
DOUBTFUL[6]["evidence"].append({"source_url": "/docs/again", "heading": "Speed"})


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    texts = {f"{name}.md": f"---\ntitle: {name}\n---\n{text}" for name, text in PAGES.items()}
    return write_pages(tmp_path / "docs", texts)


@pytest.fixture
def check(golden: Command, tmp_path: Path, pages: Path) -> Command:
    def checked(*rows: Row, flags: tuple[str | Path, ...] = ("--docs", pages)) -> Done:
        file = tmp_path / "checked.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return golden("check", file, *flags)

    return checked


def test_every_doubt_is_told_with_its_queries(check: Command, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    for name, flags in {"with pages": {}, "alone": {"flags": ()}}.items():
        done = check(*DOUBTFUL, **flags)
        assert (done.code, done.err) == (0, "")
        assert done.out.replace(str(tmp_path), "FOLDER") == snapshot(name=name)
    assert copied_share("one two three four five", "Zero one two, three four. Six") == 0.5
    assert copied_share("one two three", "one two three") == copied_share("什么是机器人", "机器人是什么") == 0
    assert copied_share("机器人是", "这里机器人是什么") == 1


def test_evidence_is_sought_in_a_collection_an_experiment_makes(check: Command, pages: Path, tmp_path: Path) -> None:
    good, config = case("a", "how quick?", STEPPER, "motors"), tmp_path / "mine.yaml"
    flags = ("--config", config)
    config.write_text("retriever: {collection: mine, store: {path: store}}\n")
    assert check(good, flags=flags).code == 2, "there is none yet"
    config.write_text(config.read_text() + "index: {collection: mine}\nsources: {dir: docs}\n")
    assert "every piece of evidence leads to one of 4 chunks" in check(good, flags=flags).out
    assert "no collection 'other'" in check(good, flags=(*flags, "--collection", "other")).err
    assert "no chunk of '/docs/motors' holds" in check(case("a", "how?", "zzzz qqqq xxxx", "motors"), flags=flags).err
    assert retrievers(["index", str(pages), "--store.path", str(tmp_path / "s"), "--collection", "own", "--quiet"]) == 0
    assert check(good, flags=("--store.path", tmp_path / "s", "--collection", "own")).code == 0
    assert "found neither; did you mean 'cohere'?" in check(good, flags=("--config", "presets/cohere.yaml")).err
    assert check(good, flags=("--quiet",)) == Done(0, "", "")


def test_reports_tell_what_is_never_found(check: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, report = make_experiment(tmp_path / "world"), tmp_path / "report.json"
    flags = ["--config", world.config, "--output", report, "--no-gate", "--metrics", "ranking/*"]
    assert call(run, flags, capsys).code == 0
    done = check(*[json.loads(line) for line in world.golden.read_text().splitlines()], flags=("--report", report))
    written = [row for row in json.loads(report.read_text())["queries"] if row["in_scope"]]
    lost = [row["id"] for row in written if row["first_relevant"] is None]
    assert f"{len(lost)} of {len(written)} queries have no relevant chunk among the candidates of 1 run" in done.out
    for file, said in ((report, "has none of these golden queries as they are now"), (world.golden, "expected a rep")):
        done = check(case("forward", "how quick?", STEPPER, "motors"), flags=("--report", file))
        assert done.code == 2 and said in done.err


# Provable differences against a simulation, and against the tests that runs are compared with


@pytest.mark.parametrize(("n", "deviation"), [(8, 0.3), (12, 0.5), (40, 0.3), (132, 0.3), (400, 0.15)])
def test_a_difference_of_that_size_is_proved_in_80_percent_of_simulated_comparisons(n: int, deviation: float) -> None:
    least = float(smallest_difference(deviation, n))
    draws = np.random.default_rng(1).normal(least, deviation, size=(4_000, n))
    assert float((stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean()) == pytest.approx(0.8, abs=0.025)


@pytest.mark.parametrize("n", [66, 132])
def test_a_difference_of_independent_hits_is_proved_at_half_as_much_again(n: int) -> None:
    least, rng = float(smallest_difference(USUAL, n)), np.random.default_rng(n)
    for times, is_enough in ((1.0, False), (1.5, True)):
        chances = 0.5 + times * least * np.array([-0.5, 0.5])
        pairs = (rng.random((400, n, 2)) < chances).astype(float)
        proved = np.mean([sign_flip(after - before, 0) < 0.05 for before, after in pairs.transpose(0, 2, 1)])
        assert (proved > 0.76) == is_enough


def test_a_difference_is_provable_only_where_six_queries_change() -> None:
    assert sign_flip(np.ones(FEWEST_CHANGED), 0) < 0.05 < sign_flip(np.ones(FEWEST_CHANGED - 1), 0)
    assert [smallest_difference(0.5, n) for n in (1, 5, 6, 7)] == ["none", "none", "0.712", "0.634"]


def test_provable_differences_are_told_of_all_and_by_split() -> None:
    cases = [make_case(f"q{n}", split="dev" if n < 30 else "test") for n in range(40)]
    told = power([*cases, make_case("out", in_scope=False, split="dev")])
    assert "about: 0.227 (all, n 40), 0.265 (dev, n 30), 0.497 (test, n 10)" in told
    assert "about: none (all, n 3), none (dev, n 3)" in power(cases[:3])
