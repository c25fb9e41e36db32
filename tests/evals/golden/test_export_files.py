"""`golden export ragas | beir | trec`: read back by ragas, by pytrec_eval, and by `golden import`."""

import json
from pathlib import Path

import pytest
import pytrec_eval
from ragas import EvaluationDataset

from evals.config.experiment import DatasetConfig
from evals.golden.command import main
from evals.golden.evidence import resolve
from evals.golden.listed_chunks import chunked_pages
from evals.golden.loading import load_golden
from tests.support.command import Done, call

Capture = pytest.CaptureFixture[str]
BY_ID = [
    {"id": "a", "query": "how <fast> & far?", "relevant_ids": {"d1": 2, "d2": 0}, "reference_answer": "fast"},
    {"id": "b", "query": "why?", "relevant_ids": {"d3": 1}, "split": "dev"},
    {"id": "c", "query": "who won?", "in_scope": False},
]


@pytest.fixture
def by_id(tmp_path: Path) -> Path:
    file = tmp_path / "golden.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in BY_ID))
    return file


def export(kind: str, file: Path, out: Path, capsys: Capture, *flags: str | Path) -> Done:
    return call(main, ["export", kind, file, "--out", out, *flags], capsys)


def test_trec_is_read_back_by_pytrec_eval_and_by_the_import(by_id: Path, tmp_path: Path, capsys: Capture) -> None:
    assert export("trec", by_id, tmp_path / "trec", capsys).code == 0
    with (tmp_path / "trec" / "qrels.txt").open() as lines:
        assert pytrec_eval.parse_qrel(lines) == {"a": {"d1": 2, "d2": 0}, "b": {"d3": 1}}
    back = [
        "import",
        "trec",
        tmp_path / "trec" / "topics.xml",
        tmp_path / "trec" / "qrels.txt",
        "--out",
        tmp_path / "back",
    ]
    assert call(main, back, capsys).code == 0
    cases = {case.id: case for case in load_golden(DatasetConfig(path=tmp_path / "back")).cases}
    assert {key: (case.query, case.relevant_ids) for key, case in cases.items()} == {
        "a": ("how <fast> & far?", {"d1": 2, "d2": 0}),
        "b": ("why?", {"d3": 1}),
    }


def test_beir_has_the_judgements_of_each_split(by_id: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "beir"
    assert export("beir", by_id, folder, capsys).code == 0
    assert (folder / "qrels" / "dev.tsv").read_text() == "query-id\tcorpus-id\tscore\nb\td3\t1\n"
    back = ["import", "beir", folder, "--out", tmp_path / "back"]
    assert call(main, back, capsys).code == 0
    assert [case.id for case in load_golden(DatasetConfig(path=tmp_path / "back")).cases] == ["a"]
    assert len((folder / "queries.jsonl").read_text().splitlines()) == 3
    assert not (folder / "corpus.jsonl").exists()


def test_evidence_becomes_judgements_of_chunks(handbook: Path, tmp_path: Path, capsys: Capture) -> None:
    file, docs, folder = handbook / "golden.jsonl", handbook / "docs", tmp_path / "beir"
    assert export("beir", file, folder, capsys, "--docs", docs).code == 0
    golden, (_, chunks) = load_golden(DatasetConfig(path=file)), chunked_pages(docs, "/docs")
    relevance = resolve(golden.cases, chunks, golden.places)
    written: dict[str, dict[str, int]] = {}
    for split in ("dev", "test"):
        for line in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]:
            query, chunk, grade = line.split("\t")
            written.setdefault(query, {})[chunk] = int(grade)
    assert written == {case.id: dict(relevance[case.id].grades) for case in golden.cases if case.in_scope}
    assert len((folder / "corpus.jsonl").read_text().splitlines()) == len(chunks) == 578


def test_ragas_reads_it_and_the_import_gives_the_evidence_back(handbook: Path, tmp_path: Path, capsys: Capture) -> None:
    file, out, back = handbook / "golden.jsonl", tmp_path / "ragas.jsonl", tmp_path / "back.jsonl"
    done = export("ragas", file, out, capsys)
    assert done.code == 0 and "132 queries, without 44 out of scope" in done.out
    before = {case.query: case for case in load_golden(DatasetConfig(path=file)).cases if case.in_scope}
    samples = EvaluationDataset.from_jsonl(out).samples
    assert [(sample.user_input, sample.reference) for sample in samples] == [
        (query, case.reference_answer) for query, case in before.items()
    ]
    assert call(main, ["import", "ragas", out, "--docs", handbook / "docs", "--out", back], capsys).code == 0
    for case in load_golden(DatasetConfig(path=back)).cases:
        quotes = {(e.source_url, e.quote) for e in before[case.query].evidence if e.quote}
        assert {e.quote for e in case.evidence} == {quote for _, quote in quotes}


def test_bad_input_is_refused(handbook: Path, by_id: Path, tmp_path: Path, capsys: Capture) -> None:
    done = export("trec", handbook / "golden.jsonl", tmp_path / "trec", capsys)
    assert done.code == 2
    assert "132 cases (m0-001, m0-002, m0-003 …) have evidence in place of chunk ids: name the chunks with" in done.err
    assert not (tmp_path / "trec").exists()
    assert export("ragas", by_id, tmp_path / "out.jsonl", capsys).code == 0
    assert "exists already" in export("ragas", by_id, tmp_path / "out.jsonl", capsys).err
    assert export("ragas", by_id, tmp_path / "out.jsonl", capsys, "--force").code == 0
    by_id.write_text(json.dumps({"id": "a b", "query": "how?", "relevant_ids": {"d1": 1}}))
    done = export("trec", by_id, tmp_path / "trec", capsys)
    assert done.code == 2 and "no id with white space, got 'a b'" in done.err
