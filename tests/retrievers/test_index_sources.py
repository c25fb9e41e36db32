"""`python -m retrievers index` on folders of mixed files and on datasets, as a user runs it."""

import json
from pathlib import Path

import pytest

from retrievers.__main__ import main
from retrievers.terminal.commands import default_collection
from tests.support.indexing import write_pages
from tests.support.pdf_files import pdf

MODEL = ("--embedding.provider", "python", "--embedding.model", "tests.support.indexing:make_embeddings")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def index(*arguments: str) -> int:
    return main(["index", *arguments, *MODEL])


def test_a_mixed_folder_names_what_it_leaves_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pages(folder / "manuals", {"a.html": "<h1>A</h1><p>Arms.", "b.txt": "Wheels.", "c.docx": "", "d.txt": ""})
    (folder / "manuals" / "e.pdf").write_bytes(pdf(["Gears.", ""]))
    (folder / "manuals" / "f.pdf").write_bytes(pdf([""]))
    assert index("manuals") == 2
    refused = capsys.readouterr()
    assert (refused.out, (folder / ".qdrant" / "manuals").exists()) == ("", False)
    assert "manuals/d.txt: the file has no text" in refused.err
    assert "manuals/f.pdf: none of its 1 pages has text: a scan? Make it readable" in refused.err
    assert index("manuals", "--skip-broken") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("3 pages, 3 chunks in collection 'manuals' at .qdrant: 3 added")
    assert "note: e.pdf: without text (pictures? a scan?): pages 2" in shown.err
    assert "note: files that are not read: .docx 1" in shown.err


def test_a_dataset_is_indexed_by_its_columns_and_brought_up_to_date(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"key": str(number), "note": f"Note {number}."} for number in range(5)]
    file = folder / "notes.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, {"key": "9", "note": ""}])), encoding="utf-8")
    columns = ("--id-column", "key", "--text-column", "note")
    assert index("notes.jsonl", *columns, "--write", "notes.yaml") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("5 documents, 5 chunks in collection 'notes' at .qdrant: 5 added")
    assert "Written: notes.yaml. Next: python -m evals.golden init --config notes.yaml --out golden.jsonl" in shown.out
    assert "note: 1 rows without text were left out, from notes.jsonl:6 on" in shown.err
    rows[3]["note"] = "Another note."  # under the same id, and so in the same point
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert index("notes.jsonl", *columns) == 0
    assert (
        "5 chunks in collection 'notes' at .qdrant: 1 added, 0 refreshed, 0 removed, 4 unch" in capsys.readouterr().out
    )
    assert main(["search", "Another note.", "--collection", "notes", *MODEL, "--threshold", "0.9"]) == 0
    assert capsys.readouterr().out.startswith(" 1  1.000  3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["c.csv", "--text-column", "bdy"],
            "c.csv: no column 'bdy' (--text-column); it has 'id', 'body'; did you mean",
        ),
        (["pages", "--id-column", "x"], "pages: columns, revision, subset and split are those of a dataset"),
        (["hub:some/data"], "hub:some/data: name the commit or tag with --revision"),
        (["nowhere"], "nowhere: expected a folder of pages, found nothing"),
        (["image.png"], "image.png: expected a folder of pages, found a file"),
        (["c.csv", "--write", "c.csv"], "c.csv: exists already; name another file with --write"),
    ],
)
def test_what_cannot_be_indexed_says_why(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    write_pages(folder, {"c.csv": "id,body\n1,x\n", "pages/a.md": "A.", "image.png": ""})
    assert index(*arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err and "Traceback" not in shown.err
    assert not [*folder.glob(".qdrant/collections/*/")]


def test_a_dataset_of_the_hub_is_streamed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A folder in the hub's place: the library reads both in the same way.
    write_pages(folder / "data", {"train.jsonl": '{"id": "a", "text": "Arms."}\n{"id": "b", "text": "Wheels."}\n'})
    assert index(f"hub:{folder / 'data'}", "--revision", "main", "--collection", "h") == 0
    assert capsys.readouterr().out.startswith("2 documents, 2 chunks in collection 'h'")


@pytest.mark.parametrize(
    ("source", "name"),
    [("scifact/corpus.jsonl", "scifact"), ("notes.csv", "notes"), ("hub:BeIR/nq", "nq"), ("handbook/docs", "handbook")],
)
def test_a_collection_is_called_by_its_source(folder: Path, source: str, name: str) -> None:
    if not source.startswith("hub:"):
        write_pages(folder, {source if "." in source else f"{source}/a.md": ""})
    assert default_collection(Path(source)) == name
