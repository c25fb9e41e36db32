"""Chunks of LangChain's splitters: its texts, at the lines where they stand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_text_splitters import MarkdownTextSplitter, RecursiveCharacterTextSplitter
from langchain_text_splitters.base import Tokenizer, split_text_on_tokens

from retrievers.embedding.tokens import count_tokens, tokenizer
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.file_kinds import text_page
from retrievers.indexing.markdown import parse_page
from retrievers.records import Chunk

MARKDOWN = """---
title: Arms
---

# Arms

An arm has seven joints. Each of them has an encoder, and each encoder has a zero.

## Zero

Turn the joint to its stop. Turn the joint to its stop. Then set the zero.

```python
# no heading
arm.zero()
```

## Limits

- torque
- speed
"""
SPLITTERS: dict[str, Any] = {"recursive": RecursiveCharacterTextSplitter, "markdown": MarkdownTextSplitter}
WORDS = st.lists(st.sampled_from(["arm", "a", "ä€", "🤖", "joint.", "\n", "\n\n", " ", "# T\n", "```\n"]), max_size=80)


def cut(text: str, **settings: Any) -> tuple[Chunk, ...]:
    return chunk_page(text_page(text, "a.txt", "/a"), settings.pop("max_tokens", 256), count_tokens, **settings)


def at_its_lines(text: str, chunk: Chunk) -> bool:
    assert chunk.start_line and chunk.end_line
    return chunk.text in "\n".join(text.split("\n")[chunk.start_line - 1 : chunk.end_line])


@pytest.mark.parametrize("splitter", SPLITTERS)
@given(words=WORDS, size=st.integers(16, 60), overlap=st.integers(0, 15))
def test_texts_are_those_of_langchain_at_their_lines(splitter: str, words: list[str], size: int, overlap: int) -> None:
    text = "start " + "".join(words)
    chunks = cut(text, splitter=splitter, chunk_size=size, chunk_overlap=overlap)
    expected = SPLITTERS[splitter](chunk_size=size, chunk_overlap=overlap).split_text(text)
    assert [chunk.text for chunk in chunks] == expected
    assert all(at_its_lines(text, chunk) for chunk in chunks)
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)


def test_a_piece_that_the_next_one_repeats_as_a_whole_stands_at_the_same_line() -> None:
    text = "start \n\narmaaaaa# T\narm"
    chunks = cut(text, splitter="markdown", chunk_size=16, chunk_overlap=12)
    assert [(chunk.text, chunk.start_line, chunk.end_line) for chunk in chunks] == [
        ("start", 1, 1),
        ("armaaaaa# T", 3, 3),
        ("armaaaaa# T\narm", 3, 4),
    ]


@given(words=WORDS, size=st.integers(4, 20), overlap=st.integers(0, 3))
def test_tokens_are_cut_as_langchain_cuts_them(words: list[str], size: int, overlap: int) -> None:
    text = "start " + "".join(words)
    chunks = cut(text, splitter="token", max_tokens=size, overlap=overlap)
    plain = Tokenizer(
        chunk_overlap=overlap,
        tokens_per_chunk=size,
        decode=tokenizer().decode,
        encode=lambda whole: tokenizer().encode(whole, add_special_tokens=False).ids,
    )
    if text.isascii():  # else a decoded piece may end inside a character
        expected = (" ".join(piece.split()) for piece in split_text_on_tokens(text=text, tokenizer=plain))
        assert [" ".join(chunk.text.split()) for chunk in chunks] == [piece for piece in expected if piece]
    assert all(at_its_lines(text, chunk) for chunk in chunks)


def test_a_page_keeps_its_front_matter_apart_and_its_sections() -> None:
    page = parse_page(MARKDOWN, "arms.md")
    chunks = chunk_page(page, 256, count_tokens, splitter="markdown", chunk_size=120, chunk_overlap=0, context="path")
    body = MARKDOWN.split("---\n\n")[1]
    assert [c.text for c in chunks] == MarkdownTextSplitter(chunk_size=120, chunk_overlap=0).split_text(body)
    assert [(c.start_line, c.end_line, c.section_path) for c in chunks] == [
        (5, 9, "Arms"),
        (11, 15, "Arms > Zero"),
        (16, 21, "Arms > Zero"),
    ]
    assert (chunks[1].chunk_context, chunks[1].chunk_headings) == ("Arms > Zero", None)
    assert chunks[2].chunk_headings == ("Zero", "Limits")


def test_a_chunk_over_several_sections_names_them_all() -> None:
    [chunk] = chunk_page(
        parse_page(MARKDOWN, "a.md"), 256, count_tokens, splitter="recursive", chunk_size=1000, chunk_overlap=0
    )
    assert (chunk.heading, chunk.chunk_headings) == ("Arms", ("Arms", "Zero", "Limits"))
