"""Chunks of LangChain's recursive splitter: its texts, at the lines where they stand."""

from hypothesis import given
from hypothesis import strategies as st
from langchain_text_splitters import RecursiveCharacterTextSplitter

from retrievers.embedding.tokens import count_tokens
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import parse_page
from retrievers.indexing.pages import text_page
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
WORDS = st.lists(st.sampled_from(["arm", "a", "ä€", "🤖", "joint.", "\n", "\n\n", " ", "# T\n", "```\n"]), max_size=80)


def splitter_of(size: int, overlap: int) -> RecursiveCharacterTextSplitter:
    return RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=overlap, length_function=count_tokens)


def cut(text: str, size: int, overlap: int) -> tuple[Chunk, ...]:
    return chunk_page(text_page(text, "a.txt", "/a"), size, count_tokens, splitter="recursive", overlap=overlap)


@given(words=WORDS, size=st.integers(4, 20), overlap=st.integers(0, 3))
def test_texts_are_those_of_langchain_at_their_lines(words: list[str], size: int, overlap: int) -> None:
    text = "start " + "".join(words)
    chunks = cut(text, size, overlap)
    assert [chunk.text for chunk in chunks] == splitter_of(size, overlap).split_text(text)
    for chunk in chunks:
        assert chunk.start_line and chunk.end_line
        assert chunk.text in "\n".join(text.split("\n")[chunk.start_line - 1 : chunk.end_line])
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)


def test_a_page_keeps_its_front_matter_apart_and_its_sections() -> None:
    page = parse_page(MARKDOWN, "arms.md")
    chunks = chunk_page(page, 32, count_tokens, splitter="recursive", context="path")
    body = MARKDOWN.split("---\n\n")[1]
    assert [c.text for c in chunks] == splitter_of(32, 0).split_text(body)
    assert [(c.start_line, c.end_line, c.section_path) for c in chunks] == [
        (5, 7, "Arms"),
        (9, 11, "Arms > Zero"),
        (13, 21, "Arms > Zero"),
    ]
    assert (chunks[1].chunk_context, chunks[1].chunk_headings) == ("Arms > Zero", None)
    assert chunks[2].chunk_headings == ("Zero", "Limits")


def test_a_chunk_over_several_sections_names_them_all() -> None:
    [chunk] = chunk_page(parse_page(MARKDOWN, "a.md"), 256, count_tokens, splitter="recursive")
    assert (chunk.heading, chunk.chunk_headings) == ("Arms", ("Arms", "Zero", "Limits"))
