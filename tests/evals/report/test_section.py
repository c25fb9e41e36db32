"""Cells, and how they are shown."""

import re

import pytest

from evals.report.section import Cell, Column, Section, line, markdown, terminal

EVIL = "\x1b[2J\x1b]8;;http://evil.invalid\x07\u202e[red]"


def test_cells_titles_and_lines_steer_nothing_and_are_no_markup() -> None:
    section = Section(title=EVIL, lines=[line(EVIL)], columns=[Column(EVIL)], rows=[[Cell(EVIL)]], below=[line(EVIL)])
    for text in (terminal([section], width=80, color=False), "\n".join(markdown(section))):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
        assert r"\x1b[2J" in text and "[red]" in text


def test_our_own_styles_are_kept_where_they_are_asked_for() -> None:
    section = Section(lines=[line(Cell("yes", tone="bold"))])
    assert terminal([section], width=80, color=True) == "\x1b[1myes\x1b[0m\n"
    assert terminal([section], width=80, color=False) == "yes\n"


METRICS = ("ragas/id_context_precision", "ragas/id_context_recall", "scope/false_answer", "cost/context_tokens")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_heading_is_broken_within_a_word_and_columns_without_room_go(width: int) -> None:
    columns = [Column("retrieval"), *(Column(name, is_number=True, is_needed=not n) for n, name in enumerate(METRICS))]
    rows = [[Cell("hybrid weighted"), *(Cell(0.5, "0.500") for _ in METRICS)]]
    text = terminal([Section(columns=columns, rows=rows)], width=width, color=False)
    words = {part for name in METRICS for part in re.split("(?<=[/_])", name)}
    for shown in (word for one in text.splitlines()[:-1] for word in one.split() if word != "retrieval"):
        assert {part for part in re.split("(?<=[/_])", shown) if part} <= words
    assert text.count("0.500") == (1 if width == 40 else 4)
    assert max(len(one.rstrip()) for one in text.splitlines()) <= width


def test_columns_without_room_stand_in_a_second_table_where_they_spill() -> None:
    columns = [Column("metric"), Column("value"), Column("p", is_needed=False)]
    section = Section(columns=columns, rows=[[Cell("m"), Cell("0.5"), Cell("0." + "1" * 20)]], spills=True)
    narrow, wide = (terminal([section], width=width, color=False).split() for width in (20, 80))
    assert wide == ["metric", "value", "p", "m", "0.5", "0." + "1" * 20]
    assert narrow[:4] == ["metric", "value", "m", "0.5"] and narrow[4:6] == ["metric", "p"]


def test_a_table_in_markdown_has_what_is_bad_in_bold() -> None:
    section = Section(columns=[Column("criterion"), Column("")], rows=[[Cell("m >= 1"), Cell("FAIL", tone="bad")]])
    assert list(markdown(section)) == ["| criterion | |", "|---|---|", "| m >= 1 | **FAIL** |"]
