"""BEIR folders and TREC files become golden queries, or every fault is named."""

import json
from pathlib import Path

import pytest

from evals.dataset.importers import import_beir, import_trec
from evals.errors import DatasetError

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
        ("4", "heat & slabs < thin", {"b": 1}),
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
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n")
    imported = import_beir(tmp_path)
    assert [(c.id, c.relevant_ids) for c in imported.cases] == [("q1", {"d1": 2})]
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
