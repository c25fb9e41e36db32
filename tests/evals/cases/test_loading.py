import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.case import Case
from evals.cases.reading import (
    BY_CHUNK,
    GoldenSet,
    case_fingerprint,
    choose,
    fingerprint,
    golden_set,
    load_golden,
    validate_rows,
)
from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError

PASSAGE = {"source_url": "/docs/a", "quote": "a quote"}


def row(name: str, **values: Any) -> dict[str, Any]:
    return {"id": name, "query": f"query {name}", "evidence": [PASSAGE], **values}


def case(name: str, **values: Any) -> Case:
    return Case.model_validate(row(name, **values))


def lines(rows: Sequence[Mapping[str, Any]], end: str = "\n") -> bytes:
    return "".join(json.dumps(one) + end for one in rows).encode()


def load(path: Path, **settings: Any) -> GoldenSet:
    return load_golden(DatasetConfig(path=path, **settings))


def ids(golden: GoldenSet) -> list[str]:
    return [one.id for one in golden.cases]


def test_a_file_gives_its_cases_in_order_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_bytes(lines([row("b"), row("a")]))
    golden = load(file)
    assert ids(golden) == ["b", "a"]
    assert golden.places == {"b": f"{file}:1", "a": f"{file}:2"}
    assert golden.name == str(file)


def test_a_folder_gives_the_cases_of_its_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "2.jsonl").write_bytes(lines([row("second")]))
    (tmp_path / "1.jsonl").write_bytes(lines([row("first")]))
    (tmp_path / "notes.txt").write_text("not golden")
    golden = load(tmp_path)
    assert ids(golden) == ["first", "second"]
    assert golden.places["second"] == f"{tmp_path / '2.jsonl'}:1"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + lines([row("a"), row("b")]),
        lines([row("a"), row("b")], "\r\n"),
        lines([row("a"), row("b")]).rstrip(),
    ],
    ids=["byte order mark", "windows line ends", "no last line end"],
)
def test_how_lines_end_does_not_matter(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "g.jsonl").write_bytes(data)
    assert ids(load(tmp_path / "g.jsonl")) == ["a", "b"]


def test_blank_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "g.jsonl"
    file.write_bytes(b"\n" + lines([row("a")]) + b"  \n" + lines([row("b")]))
    assert load(file).places == {"a": f"{file}:2", "b": f"{file}:4"}


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    file = tmp_path / "g.jsonl"
    text = json.dumps(row("a", query="one\u2028two\u0085three"), ensure_ascii=False)
    file.write_text(text + "\n" + json.dumps(row("b")) + "\n", encoding="utf-8")
    assert load(file).places["b"] == f"{file}:2"


def test_every_fault_is_listed_at_once_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "g.jsonl"
    bad = [
        "{not json",
        "[1, 2]",
        json.dumps({"id": "c", "evidence": [PASSAGE]}),
        json.dumps(row("d", querry="x")),
        json.dumps(row("e", in_scope=False)),
        json.dumps(row("f", min_results=0, split=3)),
        json.dumps(row("g")),
        json.dumps(row("g")),
        json.dumps(row("h", evidence=[{"source_url": "/docs/a", "quotes": "x"}])),
        '{"id": "i", "query": "\\ud800", "in_scope": false}',
        '{"id": "j", "query": "q", "in_scope": false, "min_results": ' + "9" * 5_000 + "}",
        "[" * 100_000,
        '{"id": "k", "query": "q", "query": "r", "in_scope": false}',
    ]
    file.write_text("\n".join(bad), encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        load(file)
    assert str(caught.value).startswith("13 faults in the golden data:\n")
    said = [fault.removeprefix(f"{file}:") for fault in caught.value.faults]
    assert said == [
        "1: not valid JSON: Expecting property name enclosed in double quotes at column 2",
        "2: expected a JSON object, got [1, 2]",
        "3: query: this field is required",
        "4: querry: unknown field; did you mean 'query' or 'query_type'?",
        "5: an out-of-scope case must not have evidence or relevant_ids of a grade above 0",
        "6: min_results: Input should be greater than or equal to 1, got 0",
        "6: split: Input should be a valid string, got 3",
        f"8: id 'g' is used already at {file}:7",
        "9: evidence.0.quotes: unknown field; did you mean 'quote'?",
        "10: not valid JSON: half of a surrogate pair, which is no character",
        "11: not valid JSON: a number of 5,000 digits, expected at most 100",
        "12: not valid JSON: nested too deep",
        "13: not valid JSON: 'query' is given twice; leave one of them out",
    ]


def test_a_duplicate_in_another_file_names_both_places(tmp_path: Path) -> None:
    for name in ("1.jsonl", "2.jsonl"):
        (tmp_path / name).write_bytes(lines([row("a")]))
    with pytest.raises(DatasetError, match=r"2\.jsonl:1: id 'a' is used already at .*1\.jsonl:1"):
        load(tmp_path)


def test_a_wrong_value_is_shown_shortened(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_bytes(lines([row("a", query="w " * 600)]))
    with pytest.raises(DatasetError) as caught:
        load(tmp_path / "g.jsonl")
    assert "is too long: 600 words" in caught.value.faults[0]
    assert caught.value.faults[0].endswith(f"got 'w{' w' * 23}…{'w ' * 24}'")
    assert len(caught.value.faults[0]) < 300


def test_after_fifty_faults_the_rest_is_counted(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text("x\n" * 60)
    with pytest.raises(DatasetError, match="60 faults") as caught:
        load(tmp_path / "g.jsonl")
    assert len(caught.value.faults) == 51
    assert caught.value.faults[-1] == "… and 10 more"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("missing.jsonl", None, "cannot be read: No such file or directory; expected a JSON Lines file"),
        ("g.jsonl", b"", "the golden data holds no case"),
        ("g.jsonl", b"\n \n", "the golden data holds no case"),
        ("g.jsonl", b'{"id": "\xff"}', r"not UTF-8 \(byte 8"),
        ("g.jsonl", b"x", "1 fault in the golden data:"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, name: str, data: bytes | None, said: str) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(DatasetError, match=said):
        load(tmp_path / name)


def test_a_folder_without_golden_data(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"holds no \.jsonl, \.json, \.csv, \.tsv, \.parquet file"):
        load(tmp_path)


def test_no_golden_data_at_all() -> None:
    with pytest.raises(DatasetError, match=r"set dataset\.path"):
        load_golden(DatasetConfig.model_validate({}))


CASES = (case("a", split="dev"), case("b", split="test"), case("c", split="test"), case("d"))


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({}, "abcd"),
        ({"split": "test"}, "bc"),
        ({"split": ""}, "abcd"),
        ({"split": "test", "limit": 1}, "b"),
        ({"limit": 9}, "abcd"),
        ({"ids": ("c", "a")}, "ac"),
        ({"ids": ("a", "a")}, "a"),
        ({"ids": ("a",), "split": "test"}, "a"),
    ],
)
def test_which_cases_are_chosen(settings: dict[str, Any], chosen: str) -> None:
    assert "".join(one.id for one in choose(CASES, DatasetConfig(**settings))) == chosen


@pytest.mark.parametrize(
    ("cases", "settings", "said"),
    [
        (CASES, {"split": "train"}, "no split 'train': it has 'dev', 'test'"),
        (CASES[3:], {"split": "test"}, "no split 'test': its cases name none"),
        ([case("m1-001")], {"ids": ("m1-01", "x")}, "no case with id 'm1-01', 'x'; did you mean 'm1-001'?"),
    ],
)
def test_what_cannot_be_chosen(cases: Sequence[Case], settings: dict[str, Any], said: str) -> None:
    with pytest.raises(DatasetError) as caught:
        choose(cases, DatasetConfig(**settings))
    assert said in str(caught.value)


@given(st.permutations(range(4)), st.randoms())
def test_the_fingerprint_does_not_depend_on_order_of_cases_or_keys(order: list[int], random: Any) -> None:
    def shuffled(one: Case) -> Case:
        items = list(one.model_dump(exclude_defaults=True).items())
        random.shuffle(items)
        return Case.model_validate(dict(items))

    assert fingerprint([shuffled(CASES[place]) for place in order]) == fingerprint(CASES)


@pytest.mark.parametrize(
    "values",
    [
        {"query": "another"},
        {"reference_answer": "yes"},
        {"split": "dev"},
        {"tags": ["x"]},
        {"min_results": 2},
        {"evidence": [{**PASSAGE, "grade": 2}]},
        {"evidence": [PASSAGE, PASSAGE]},
        {"relevant_ids": {"x": 1}},
        {"reference_answer": "yes", "human_verdicts": {"x": 1}},
    ],
)
def test_the_fingerprint_changes_with_any_content(values: dict[str, Any]) -> None:
    assert fingerprint([case("a", **values)]) != fingerprint([case("a")])


def test_the_fingerprint_changes_with_a_human_verdict_and_not_with_the_absence_of_any() -> None:
    """Cases without keep the fingerprint they had before the field was; the origin of labels is no part of it."""
    plain = case("a", reference_answer="yes")
    content = {
        key: value for key, value in plain.model_dump(mode="json").items() if key not in ("human_verdicts", "labelling")
    }
    text = json.dumps([content], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert fingerprint([plain]) == hashlib.sha256(text.encode()).hexdigest()
    judged = [case("a", reference_answer="yes", human_verdicts={"x": verdict}) for verdict in (0, 1)]
    assert len({fingerprint([one]) for one in (plain, *judged)}) == 3
    labelled = case("a", reference_answer="yes", labelling={"by": ["ada"], "at": "now", "pool": ["s"], "depth": 5})
    assert fingerprint([labelled]) == fingerprint([plain])


def test_human_verdicts_survive_a_file_and_a_hugging_face_dataset(tmp_path: Path) -> None:
    rows = [row("a", reference_answer="yes", human_verdicts={"x": 1, "ü y": 0}), row("b")]
    (tmp_path / "g.jsonl").write_bytes(lines(rows))
    golden = load(tmp_path / "g.jsonl")
    assert [one.human_verdicts for one in golden.cases] == [{"x": 1, "ü y": 0}, {}]
    table = [{**one, **{name: json.loads(one[name]) for name in BY_CHUNK}} for one in golden.to_huggingface()]
    assert [Case.model_validate(one) for one in table] == list(golden.cases)
    again = [one.model_dump(exclude_defaults=True) for one in golden.cases]
    (tmp_path / "again.jsonl").write_bytes(lines(again))
    assert load(tmp_path / "again.jsonl").cases == golden.cases
    assert load(tmp_path / "again.jsonl").fingerprint == golden.fingerprint


def test_the_fingerprint_is_that_of_the_chosen_cases(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_bytes(lines([row("a"), row("b")]))
    assert load(tmp_path / "g.jsonl", limit=1).fingerprint == fingerprint([case("a")])


def test_as_a_hugging_face_dataset_it_holds_the_same_rows(handbook: Path) -> None:
    golden = load(handbook / "golden.jsonl")
    rows = golden.to_huggingface()
    assert len(rows) == len(golden.cases)
    found = [{**one, **{name: json.loads(one[name]) for name in BY_CHUNK}} for one in rows]
    assert [Case.model_validate(one) for one in found] == list(golden.cases)


def test_out_of_scope_cases_alone_make_a_hugging_face_dataset(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_bytes(lines([{"id": "a", "query": "q", "in_scope": False}]))
    assert load(tmp_path / "g.jsonl").to_huggingface()["id"][:] == ["a"]


def test_a_hub_data_set_is_read_with_the_nulls_of_its_table_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "hub"
    folder.mkdir()
    rows = [
        row("a", evidence=[PASSAGE, {**PASSAGE, "grade": 3}], reference_answer="yes"),
        {"id": "b", "query": "q", "in_scope": False},
        {"id": "c", "query": "q", "relevant_ids": '{"x": 2}', "reference_answer": "c", "human_verdicts": '{"y": 0}'},
    ]
    columns = sorted({name for one in rows for name in one})
    table = datasets.Dataset.from_dict({name: [one.get(name) for one in rows] for name in columns})
    table.to_parquet(folder / "train.parquet")
    golden = load_golden(DatasetConfig(hub=str(folder), revision="main"))
    decoded = {**rows[2], "relevant_ids": {"x": 2}, "human_verdicts": {"y": 0}}
    assert golden.cases == tuple(Case.model_validate(one) for one in (*rows[:2], decoded))
    assert golden.places["c"] == f"{folder}:3"


def test_a_hub_data_set_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"dataset\.hub '.*' at revision 'abc' cannot be loaded: \w+"):
        load_golden(DatasetConfig(hub=str(tmp_path / "nothing"), revision="abc"))


def test_rows_are_checked_whatever_they_come_from() -> None:
    cases, places = validate_rows([("here", row("a"))])
    assert (cases, places) == ((case("a"),), {"a": "here"})


def test_the_handbook_holds_what_its_readme_says(handbook: Path) -> None:
    golden = load(handbook / "golden.jsonl")
    splits = {split: ids(load(handbook / "golden.jsonl", split=split)) for split in ("dev", "test")}
    assert sorted(splits["dev"] + splits["test"]) == sorted(ids(golden))
    assert sum(one.in_scope for one in golden.cases) >= 80
    assert sum(not one.in_scope for one in golden.cases) >= 24
    assert all(one.reference_answer for one in golden.cases if one.in_scope)


def test_a_case_has_a_fingerprint_of_what_its_scores_depend_on() -> None:
    case = Case.model_validate({"id": "a", "query": "q", "in_scope": False})
    labelled = case.model_copy(update={"tags": ["x"], "split": "dev", "query_type": "factual"})
    labelled = labelled.model_copy(update={"human_verdicts": {"x": 1}})
    assert case_fingerprint(labelled) == case_fingerprint(case)
    changes = {"id": "b", "query": "r", "reference_answer": "r", "min_results": 2, "expected_topics": ["t"]}
    others = [case.model_copy(update={name: value}) for name, value in changes.items()]
    assert len({case_fingerprint(one) for one in (case, *others)}) == 6


def test_an_array_is_read_as_its_elements_each_with_the_line_on_which_it_begins(tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    file.write_text(json.dumps([row("a"), row("b")], indent=2))
    golden = load(file)
    assert (ids(golden), golden.places["a"], golden.places["b"]) == (["a", "b"], f"{file}:2", f"{file}:12")
    (tmp_path / "golden.jsonl").write_text(json.dumps([row("a"), 5, row("b", qurey="x")]))
    with pytest.raises(DatasetError) as caught:
        load(tmp_path / "golden.jsonl")
    assert [fault.rpartition("golden.jsonl:")[2] for fault in caught.value.faults] == [
        "1: expected a JSON object, got 5", "1: qurey: unknown field; did you mean 'query' or 'query_type'?"
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["", "\n]", "]]"])
def test_a_broken_array_or_an_object_of_many_lines_is_one_fault_of_one_line(tmp_path: Path, end: str) -> None:
    file = tmp_path / "golden.jsonl"
    file.write_text("[\n" + ",\n".join(json.dumps(row(str(n)), indent=2) for n in range(50)) + end.replace("\n]", ",]"))
    with pytest.raises(
        DatasetError, match=f"^{file}: not valid JSON: .* expected one JSON object a line, or one array"
    ):
        load(file)
    file.write_text(json.dumps(row("a"), indent=2))
    with pytest.raises(DatasetError, match=f"^{file}: an object over several lines; expected one object a line"):
        load(file)


def test_a_row_without_an_id_is_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text('{"query": "how?", "in_scope": false}\n\n{"query": "why?", "in_scope": false}\n')
    assert ids(load(tmp_path / "g.jsonl")) == ["q001", "q002"]


def test_a_csv_or_parquet_file_is_golden_data_as_it_is(tmp_path: Path) -> None:
    import pandas as pd

    file = tmp_path / "g.csv"
    file.write_text("id;query;quote;grade;in_scope\na;how?;the first;3;\na;how?;the second;0;\nb;who?;;;no\n")
    golden = load(file)
    assert [(e.quote, e.grade) for e in golden.cases[0].evidence] == [("the first", 3), ("the second", 0)]
    assert (ids(golden), golden.cases[1].in_scope, golden.places["b"]) == (["a", "b"], False, f"{file}:4")
    frame = pd.DataFrame([row("a", tags=["x", "y"]), {"id": "b", "query": "who?", "in_scope": False}])
    frame.to_parquet(tmp_path / "g.parquet")
    assert load(tmp_path / "g.parquet").cases == golden_set(frame).cases
    assert load(tmp_path / "g.parquet").cases[0].tags == ["x", "y"]


def test_ragas_testset_is_golden_data_as_it_is(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [
        {"user_input": "How fast?", "reference": "10", "reference_contexts": ["A stepper turns."], "retrieved": "x"},
        {"user_input": "How hot?", "reference": "20"},
    ]
    (tmp_path / "t.jsonl").write_bytes(lines(samples))
    (tmp_path / "t.csv").write_text(
        "user_input,reference_contexts,reference,synthesizer_name\nHow fast?,\"['A stepper turns.']\",10,single\n"
        "How hot?,,20,single\n"
    )
    for name in ("t.jsonl", "t.csv"):
        first, second = load(tmp_path / name).cases
        assert (first.query, first.reference_answer, second.is_unlabelled) == ("How fast?", "10", True)
        assert [evidence.quote for evidence in first.evidence] == ["A stepper turns."]


def test_a_column_that_is_no_field_is_one_fault_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("question,answer\n" + "how?,so\n" * 100)
    with pytest.raises(DatasetError, match=r"g\.csv: no column 'query'.*golden import .* --column FIELD=COLUMN$"):
        load(tmp_path / "g.csv")
    (tmp_path / "g.csv").write_text("query,reference_anser\n" + "how?,so\n" * 100)
    with pytest.raises(DatasetError, match="unknown column 'reference_anser'; did you mean 'reference_answer'"):
        load(tmp_path / "g.csv")


def test_a_folder_of_beir_is_golden_data_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "lift"}\n{"_id": "q2", "text": "drag"}\n')
    (tmp_path / "qrels").mkdir()
    for split, line in (("dev", "q2\td9\t1\n"), ("test", "q1\td7\t2\n")):
        (tmp_path / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + line)
    assert [(one.id, one.split, one.relevant_ids) for one in load(tmp_path).cases] == [("q1", "test", {"d7": 2})]
    (tmp_path / "qrels" / "test.tsv").unlink()
    assert [(one.id, one.split, one.relevant_ids) for one in load(tmp_path).cases] == [("q2", "dev", {"d9": 1})]
