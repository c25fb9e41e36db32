"""Folders of pages: every page read or named, whatever lies there."""

import os
from pathlib import Path

import pytest

from retrievers.errors import IndexingError
from retrievers.indexing.pages import read_corpus
from tests.support.indexing import write_pages
from tests.support.pdf_files import pdf

PAGES = {
    "one/alpha.md": "---\ntitle: Alpha\n---\n\n# Alpha\n\nAlpha text.\n",
    "one/beta.mdx": "# Beta\n\nBeta text.\n",
    "two.md": "Two text.\n\n## More\n\nMore text.\n",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "docs", PAGES)


class TestReading:
    def test_finds_pages_of_both_suffixes_in_path_order(self, docs: Path) -> None:
        write_pages(
            docs, {"UPPER.MD": "Upper.", "notes.rst": "no", "_part.mdx": "no", ".hid.md": "no", "_dir/x.md": "no"}
        )
        assert [page.file_path for page in read_corpus(docs).pages] == [
            "UPPER.MD",
            "one/alpha.md",
            "one/beta.mdx",
            "two.md",
        ]

    def test_a_missing_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(IndexingError, match=r"gone: expected a folder of pages, found nothing"):
            read_corpus(tmp_path / "gone")

    def test_a_file_is_no_folder(self, docs: Path) -> None:
        with pytest.raises(IndexingError, match=r"two\.md: expected a folder of pages, found a file"):
            read_corpus(docs / "two.md")

    def test_a_folder_without_pages_is_refused(self, tmp_path: Path) -> None:
        write_pages(tmp_path, {"a.rst": "x", "_b.md": "x"})
        with pytest.raises(IndexingError, match=r"holds no page \(\.md, .*, \.pdf\); nothing was changed"):
            read_corpus(tmp_path)

    def test_a_byte_order_mark_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\ntext\r\n")
        (page,) = read_corpus(tmp_path).pages
        assert (page.title, page.text) == ("T", "---\ntitle: T\n---\ntext\n")

    def test_every_fault_is_named_with_its_file_at_once(self, docs: Path) -> None:
        write_pages(
            docs,
            {
                "b1.md": "---\ntitle: [\n---\nx",
                "b2.md": "---\ntitle: x\n",
                "b3.md": "",
                "b4.md": "---\ntags: a\n---\nx",
                "two.mdx": "Same address.",
            },
        )
        (docs / "b5.md").write_bytes(b"ok so far \xff\xfe")
        (docs / "b6.md").symlink_to(docs / "nowhere.md")
        (docs / "b7.md").mkdir()
        corpus = read_corpus(docs)
        assert len(corpus.pages) == len(PAGES)
        expected = [
            ("b1.md", "line 2: the front matter is not valid YAML: "),
            ("b2.md", "line 1: the front matter is not closed by a line of three dashes"),
            ("b3.md", "the page has no content"),
            ("b4.md", "front matter: tags must be a list, got 'a'"),
            ("b5.md", "not UTF-8 (byte 10: invalid start byte)"),
            ("b6.md", "cannot be read: No such file or directory"),
            ("b7.md", "cannot be read: Is a directory"),
            ("two.mdx", "has the address '/docs/two' of two.md"),
        ]
        assert len(corpus.faults) == len(expected)
        for fault, (name, text) in zip(corpus.faults, expected, strict=True):
            assert fault.startswith(f"{docs / name}: {text}")

    def test_a_broken_line_is_that_of_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "a.md").write_bytes("---\r\ntitle: T\r\nx: 1\r\ny: 'a' b\r\n---\r\ntext\r\n".encode("utf-8-sig"))
        assert read_corpus(tmp_path).faults[0].startswith(f"{tmp_path / 'a.md'}: line 4: ")

    @pytest.mark.parametrize(
        ("first", "second"),
        [("a.md", "a.mdx"), ("01-a.md", "02-a.md"), ("a/README.md", "a/index.md"), ("a/a.md", "a.md")],
    )
    def test_of_two_pages_with_one_address_the_first_is_read(self, tmp_path: Path, first: str, second: str) -> None:
        corpus = read_corpus(write_pages(tmp_path, {first: "One.", second: "Other."}))
        assert [page.file_path for page in corpus.pages] == [first]
        assert corpus.faults == (f"{tmp_path / second}: has the address '/docs/a' of {first}",)

    def test_a_slug_may_clash_too(self, tmp_path: Path) -> None:
        corpus = read_corpus(write_pages(tmp_path, {"a.md": "A.", "b.md": "---\nslug: /a\n---\nB."}))
        assert len(corpus.pages) == len(corpus.faults) == 1


class TestFingerprint:
    def of(self, folder: Path, base_url: str = "/docs") -> str:
        return read_corpus(folder, base_url).fingerprint

    def test_is_the_same_for_the_same_pages_elsewhere(self, docs: Path, tmp_path: Path) -> None:
        assert self.of(docs) == self.of(write_pages(tmp_path / "copy", PAGES))

    @pytest.mark.parametrize(
        ("name", "source"),
        [("two.md", "Two text!\n"), ("new.md", "New."), ("two.md", PAGES["two.md"] + "\n")],
    )
    def test_changes_with_any_byte_of_any_page(self, docs: Path, name: str, source: str) -> None:
        before = self.of(docs)
        write_pages(docs, {name: source})
        assert self.of(docs) != before

    def test_changes_with_a_name_and_with_the_base_of_addresses(self, docs: Path) -> None:
        before = self.of(docs)
        assert self.of(docs, "/help") != before
        (docs / "two.md").rename(docs / "three.md")
        assert self.of(docs) != before

    def test_moving_text_between_pages_is_a_change(self, tmp_path: Path) -> None:
        one = write_pages(tmp_path / "1", {"a.md": "xy", "b.md": "z"})
        other = write_pages(tmp_path / "2", {"a.md": "x", "b.md": "yz"})
        assert self.of(one) != self.of(other)

    def test_ignores_what_is_no_page(self, docs: Path) -> None:
        before = self.of(docs)
        write_pages(docs, {"_part.md": "x", "image.svg": "<svg/>"})
        assert self.of(docs) == before


class TestOddFiles:
    """Check that a file that is no page of the folder is named, and the pages are read."""

    def fault(self, docs: Path) -> str:
        corpus = read_corpus(docs)
        assert len(corpus.pages) == len(PAGES)
        [fault] = corpus.faults
        return fault

    def test_a_link_within_the_folder_is_followed(self, docs: Path) -> None:
        (docs / "three.md").symlink_to(docs / "two.md")
        corpus = read_corpus(docs)
        assert len(corpus.pages) == len(PAGES) + 1 and not corpus.faults

    @pytest.mark.parametrize("target", ["../secret.md", "/dev/zero", "/etc/hostname"])
    def test_a_link_out_of_the_folder_is_refused(self, docs: Path, target: str) -> None:
        (docs.parent / "secret.md").write_text("a secret", encoding="utf-8")
        (docs / "link.md").symlink_to(target)
        assert self.fault(docs).startswith(f"{docs / 'link.md'}: a link that leads out of the folder is not followed")

    def test_the_folder_itself_may_be_a_link(self, docs: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(docs)
        assert len(read_corpus(tmp_path / "link").pages) == len(PAGES)

    def test_a_link_to_itself(self, docs: Path) -> None:
        (docs / "loop.md").symlink_to(docs / "loop.md")
        assert self.fault(docs).startswith(f"{docs / 'loop.md'}: cannot be read: ")

    def test_a_pipe_is_not_waited_for(self, docs: Path) -> None:
        os.mkfifo(docs / "pipe.md")
        assert self.fault(docs) == f"{docs / 'pipe.md'}: not a file, but a pipe or a device"

    def test_a_name_that_is_not_utf8(self, docs: Path) -> None:
        os.close(os.open(os.fsencode(docs) + b"/na\xffme.md", os.O_CREAT | os.O_WRONLY))
        assert self.fault(docs) == f"{docs}/na\\udcffme.md: its name is not UTF-8; rename it"

    def test_a_file_too_large_to_be_a_page(self, docs: Path) -> None:
        with (docs / "large.md").open("wb") as file:
            file.truncate(10_000_000_000)
        expected = "holds 10,000,000,000 bytes; expected at most 4,194,304 in a page"
        assert self.fault(docs) == f"{docs / 'large.md'}: {expected}"


class TestKinds:
    def mixed(self, docs: Path) -> Path:
        write_pages(docs, {"arm.html": "<h1>Arm</h1><p>Seven joints.", "note.txt": "A note.", "_static/x.html": "no"})
        (docs / "two.pdf").write_bytes(pdf(["One.", "", "Three."]))
        (docs / "wide.txt").write_bytes("Größe".encode("utf-16"))
        return docs

    def test_a_folder_may_mix_them(self, docs: Path) -> None:
        corpus = read_corpus(self.mixed(docs))
        assert {page.file_path: page.source_url for page in corpus.pages} == {
            "arm.html": "/docs/arm.html",
            "note.txt": "/docs/note.txt",
            "one/alpha.md": "/docs/one/alpha",
            "one/beta.mdx": "/docs/one/beta",
            "two.md": "/docs/two",
            "two.pdf": "/docs/two.pdf",
            "wide.txt": "/docs/wide.txt",
        }
        assert not corpus.faults

    def test_what_is_not_read_is_counted(self, docs: Path) -> None:
        write_pages(self.mixed(docs), {"a.docx": "", "b.DOCX": "", "c.rst": "", ".git/d.rst": "", "e.png": ""})
        assert read_corpus(docs).notes == (
            "two.pdf: 1 of its 3 pages without text (pictures? a scan?): 2",
            "documents that are not read: .docx 2, .rst 1; convert them to HTML, PDF or text",
        )

    def test_a_fault_names_its_file(self, docs: Path) -> None:
        write_pages(docs, {"a.txt": "", "b.html": "<script>x</script>"})
        (docs / "c.txt").write_bytes("Größe".encode("latin-1"))
        (docs / "d.txt").write_bytes(b"\xff\xfe\x00")
        (docs / "e.pdf").write_bytes(pdf([""]))
        expected = (
            "the file has no text",
            "the page shows no text",
            "not UTF-8 (byte 2",
            "not UTF-16",
            "its page has no",
        )
        for fault, text in zip(read_corpus(docs).faults, expected, strict=True):
            assert f": {text}" in fault
        assert "iconv -f LATIN1 -t UTF-8" in read_corpus(docs).faults[2]
