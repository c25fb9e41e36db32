"""BEIR folders and TREC files become golden queries, or every fault is named."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from evals.errors import DatasetError
from evals.golden.importers import import_beir, import_trec

TOPICS = """<xml>
<top><num> 1</num><title>
lift of a wing &amp; slipstream </title></top>
<top><num> 4</num><title>heat & slabs < thin</title></top>
<top><num> 9</num><title>papers on   flutter</title></top>
</xml>"""


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_topics_that_are_not_well_formed_xml_are_read(tmp_path: Path) -> None:
    qrels = write(tmp_path, "qrels", "1 0 a 2\n4 0 b 1\n4 0 c 0\n9 0 c 1\n")
    imported = import_trec(write(tmp_path, "topics", TOPICS), qrels)
    assert [(c.id, c.query, c.relevant_ids) for c in imported.cases] == [
        ("1", "lift of a wing & slipstream", {"a": 2}),
        ("4", "heat & slabs < thin", {"b": 1, "c": 0}),
        ("9", "papers on flutter", {"c": 1}),
    ]


def test_qrels_by_ordinal_are_recognised_where_the_numbers_do_not_fit(tmp_path: Path) -> None:
    qrels = write(tmp_path, "qrels", "1 0 a 1\n2 0 b 1\n3 0 c 1\n")
    imported = import_trec(write(tmp_path, "topics", TOPICS), qrels)
    assert [c.query for c in imported.cases if c.relevant_ids == {"b": 1}] == ["heat & slabs < thin"]
    assert imported.notes[0] == "the query ids of qrels are the topics' ordinal"


def test_ordinals_can_be_demanded_where_both_fit(tmp_path: Path) -> None:
    qrels = write(tmp_path, "qrels", "1 0 a 1\n")
    topics = write(tmp_path, "topics", TOPICS.replace(" 4<", " 1<").replace("<num> 1<", "<num> 2<", 1))
    by_num = import_trec(topics, qrels)
    by_place = import_trec(topics, qrels, "ordinal")
    assert by_num.cases[0].query != by_place.cases[0].query == "lift of a wing & slipstream"


def test_query_ids_that_fit_neither_are_refused(tmp_path: Path) -> None:
    qrels = write(tmp_path, "qrels", "77 0 a 1\n")
    with pytest.raises(DatasetError, match=r"not the topics' num.*77.*not their ordinal"):
        import_trec(write(tmp_path, "topics", TOPICS), qrels)


def test_old_topics_with_labels_and_without_closing_tags_are_read(tmp_path: Path) -> None:
    topics = write(tmp_path, "topics", "<top>\n<num> Number: 301\n<title> Organized Crime\n<desc> more\n</top>\n")
    imported = import_trec(topics, write(tmp_path, "qrels", "301 0 d 1\n"))
    assert (imported.cases[0].id, imported.cases[0].query) == ("301", "Organized Crime")


def test_every_malformed_qrels_line_is_named(tmp_path: Path) -> None:
    qrels = write(tmp_path, "qrels", "1 0 a 1\n1 0 a\n\n4 0 b high\n")
    with pytest.raises(DatasetError) as caught:
        import_trec(write(tmp_path, "topics", TOPICS), qrels)
    assert [fault.partition(": ")[0] for fault in caught.value.faults] == [f"{qrels}:2", f"{qrels}:4"]


def test_a_beir_folder_is_read_and_unjudged_queries_are_left_out_with_a_note(tmp_path: Path) -> None:
    rows = [{"_id": "q1", "text": "one"}, {"_id": "q2", "text": "two", "metadata": {}}]
    write(tmp_path, "queries.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq1\td3\t-1\nq2\td1\t0\n")
    imported = import_beir(tmp_path)
    assert [(c.id, c.relevant_ids) for c in imported.cases] == [("q1", {"d1": 2, "d2": 0, "d3": -1})]
    assert imported.notes == ("1 queries have no relevant document and were left out",)


def test_a_beir_qrels_file_without_a_header_loses_no_line(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1", "text": "one"}\n')
    qrels = write(tmp_path, "dev.tsv", "q1\td1\t1\nq1\td2\t1\n")
    assert import_beir(tmp_path, qrels).cases[0].relevant_ids == {"d1": 1, "d2": 1}


def test_beir_faults_of_both_files_are_named_at_once(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1"}\n{"_id": "q2", "text": "two"}\n')
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq2 d1 1\n")
    with pytest.raises(DatasetError) as caught:
        import_beir(tmp_path)
    assert [Path(fault.split(":")[0]).name for fault in caught.value.faults] == ["queries.jsonl", "test.tsv"]


def test_judgements_of_unknown_queries_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1", "text": "one"}\n')
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq9\td1\t1\n")
    with pytest.raises(DatasetError, match=r"test.tsv:2: no query 'q9'"):
        import_beir(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"queries.jsonl: cannot be read: No such file"):
        import_beir(tmp_path)


# Faults that would pass in silence, or end in a traceback


def faults_of_beir(folder: Path, queries: Sequence[Mapping[str, object]], qrels: str) -> list[str]:
    write(folder, "queries.jsonl", "".join(json.dumps(row) + "\n" for row in queries))
    write(folder, "qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + qrels)
    with pytest.raises(DatasetError) as caught:
        import_beir(folder)
    return [fault.removeprefix(f"{folder}/") for fault in caught.value.faults]


def test_queries_that_cannot_be_asked_are_named_with_their_line(tmp_path: Path) -> None:
    queries = [{"_id": "q1", "text": "fine"}, {"_id": "q2", "text": " \t"}, {"_id": "q3", "text": "word " * 600}]
    assert faults_of_beir(tmp_path, queries, "q1\td\t1\nq2\td\t1\nq3\td\t1\n") == [
        "queries.jsonl:2: query: must not be blank, got ' \\t'",
        "queries.jsonl:3: query: is too long: 600 words and 3000 characters; at most 512 words and 4000 characters, "
        "got 'word word word word word word word word word wo…rd word word word word word word word word word '",
    ]


def test_queries_without_judgements_may_be_as_they_like(tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", '{"_id": "q1", "text": "fine"}\n{"_id": "q2", "text": ""}\n')
    write(tmp_path, "qrels/test.tsv", "q1\td\t1\n")
    assert [case.id for case in import_beir(tmp_path).cases] == ["q1"]


def test_what_is_said_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    queries: list[dict[str, object]] = [{"_id": "q1", "text": "a"}, {"_id": 2, "text": "b"}, {"_id": "q1", "text": "c"}]
    assert faults_of_beir(tmp_path, queries, "q1\td\t1\nq1\te\t1\nq1\td\t2\n2\td\t1\n") == [
        f"queries.jsonl:3: query id 'q1' is used already at {tmp_path}/queries.jsonl:1",
        f"qrels/test.tsv:4: document 'd' of query 'q1' is judged already at {tmp_path}/qrels/test.tsv:2",
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"_id": "q1"}', """expected an object with "_id" and "text", got {'_id': 'q1'}"""),
        ('{"_id": " ", "text": "a"}', 'expected an object with "_id" and "text"'),
        ('{"_id": "q1", "text": ["a"]}', 'expected an object with "_id" and "text"'),
        ('["q1"]', """expected an object with "_id" and "text", got ['q1']"""),
        ("5", 'expected an object with "_id" and "text", got 5'),
        ('{"_id": "q1", "_id": "q2", "text": "a"}', "not valid JSON: '_id' is given twice"),
        ('{"_id": ' + "9" * 5_000 + ', "text": "a"}', "not valid JSON: a number of 5,000 digits"),
        ("[" * 100_000, "not valid JSON: nested too deep"),
        ('{"_id": "q1", "text": "\\ud800"}', "not valid JSON: half of a surrogate pair"),
    ],
)
def test_a_line_that_is_no_query_is_named(line: str, fault: str, tmp_path: Path) -> None:
    write(tmp_path, "queries.jsonl", line)
    write(tmp_path, "qrels/test.tsv", "q1\td\t1\n")
    with pytest.raises(DatasetError) as caught:
        import_beir(tmp_path)
    assert caught.value.faults[0].startswith(f"{tmp_path}/queries.jsonl:1: {fault}")
    assert len(caught.value.faults[0]) < 500


@pytest.mark.parametrize("grade", ["9" * 5_000, "1.5", "", "one", "1 2"])
def test_a_grade_that_is_no_whole_number_is_named(grade: str, tmp_path: Path) -> None:
    (fault,) = faults_of_beir(tmp_path, [{"_id": "q1", "text": "a"}], f"q1\td\t1\nq1\te\t{grade}\n")
    assert fault.startswith("qrels/test.tsv:3: expected query id, document id and a whole-number grade, got 'q1\\te")
    assert len(fault) < 300


def test_topics_that_cannot_be_asked_or_share_a_number_are_named_with_their_line(tmp_path: Path) -> None:
    text = TOPICS.replace("papers on   flutter", "word " * 600)
    topics = write(tmp_path, "topics", text)
    with pytest.raises(DatasetError) as caught:
        import_trec(topics, write(tmp_path, "qrels", "1 0 a 1\n9 0 a 1\n"))
    (fault,) = caught.value.faults
    assert fault.startswith(f"{topics}:5: query: is too long: 600 words")
    topics = write(tmp_path, "topics", TOPICS.replace(" 4<", " 1<"))
    with pytest.raises(DatasetError) as caught:
        import_trec(topics, write(tmp_path, "qrels", "1 0 a 1\n"))
    assert caught.value.faults == (f"{topics}:4: query id '1' is used already at {topics}:2",)
    assert len(import_trec(topics, tmp_path / "qrels", "ordinal").cases) == 1


def test_trec_judgements_given_twice_are_named(tmp_path: Path) -> None:
    qrels = write(tmp_path, "qrels", "1 0 a 1\n1 0 a 1\n")
    with pytest.raises(DatasetError) as caught:
        import_trec(write(tmp_path, "topics", TOPICS), qrels)
    assert caught.value.faults == (f"{qrels}:2: document 'a' of query '1' is judged already at {qrels}:1",)


def test_topics_that_never_end_are_read_in_linear_time(tmp_path: Path) -> None:
    topics = write(tmp_path, "topics", "<top>" * 200_000 + "<num>1<title>flutter</top>")
    assert import_trec(topics, write(tmp_path, "qrels", "1 0 a 1\n")).cases[0].query == "flutter"
