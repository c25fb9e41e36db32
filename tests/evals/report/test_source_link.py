from pathlib import Path

import pytest

from evals.report.text import source_link

CONFIG = {"sources": {"dir": "/data/my docs"}}


def test_a_link_leads_to_the_first_line_of_the_chunk() -> None:
    assert source_link("a/b.md:8-10", CONFIG) == "file:///data/my%20docs/a/b.md#L8"
    assert source_link("a.md:3", CONFIG) == "file:///data/my%20docs/a.md#L3"


def test_a_relative_folder_is_that_of_where_the_run_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_link("a.md:3", {"sources": {"dir": "docs"}}) == f"{(tmp_path / 'docs' / 'a.md').as_uri()}#L3"


@pytest.mark.parametrize(
    "source", ["/docs/a:3", "https://example.com/a:3", "a.md", "0f3a", "../../etc/passwd:1-2", "a.md:x", ""]
)
def test_what_is_no_place_in_a_file_of_the_folder_has_no_link(source: str) -> None:
    assert source_link(source, CONFIG) == ""


@pytest.mark.parametrize("config", [{}, {"sources": None}, {"sources": {"dir": None}}])
def test_without_a_folder_there_is_no_link(config: dict[str, object]) -> None:
    assert source_link("a.md:3", config) == ""
