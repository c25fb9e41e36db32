from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import parse_page
from retrievers.records import Chunk

TREE = """# Arms

Arms move.

## Hands

Hands hold.

## Grippers

Grippers grip.

### Fingers

Fingers bend.

## Welding

Welding takes more words than the others do.
"""


def words(text: str) -> int:
    return len(text.split())


def cut(source: str, max_words: int, context: str = "none") -> tuple[Chunk, ...]:
    page = parse_page(source, "guide/page.md")
    return chunk_page(page, max_words, words, context=context, merge_small=True)  # type: ignore[arg-type]


def held(source: str, max_words: int) -> list[tuple[str, ...]]:
    return [chunk.chunk_headings or (chunk.heading or "",) for chunk in cut(source, max_words)]


def test_neighbours_of_one_parent_share_a_chunk_while_they_fit() -> None:
    assert held(TREE, 8) == [("Arms", "Hands"), ("Grippers", "Fingers"), ("Welding",), ("Welding",)]
    assert held(TREE, 12) == [("Arms", "Hands", "Grippers"), ("Fingers",), ("Welding",)]


def test_the_parents_own_text_counts_as_one_of_them() -> None:
    assert held("# A\n\na\n\n## B\n\nb\n\n### C\n\nc\n", 8) == [("A", "B"), ("C",)]
    assert held("---\ntitle: T\n---\n\na\n\n# B\n\nb\n", 8) == [("T", "B")]


def test_sections_of_different_parents_are_not_mixed() -> None:
    assert held("# A\n\n## B\n\nb\n\n# C\n\n## D\n\nd\n", 100) == [("B",), ("D",)]


def test_text_lines_and_place_are_those_of_the_page() -> None:
    first, *_ = cut(TREE, 12)
    assert first.text == TREE[: TREE.index("\n\n### Fingers")]
    assert (first.start_line, first.end_line) == (1, 11)
    assert (first.section_path, first.heading) == ("Arms", "Arms")
    assert first.chunk_token_count == 12


def test_what_stands_between_sections_keeps_them_apart() -> None:
    source = "# A\n\na\n\nimport Tabs from '@theme/Tabs';\n\n# B\n\nb\n"
    assert held(source, 100) == [("A",), ("B",)]
    assert held(source.replace("import Tabs from '@theme/Tabs';\n\n", ""), 100) == [("A", "B")]


def test_the_context_is_the_path_of_the_parent() -> None:
    source = "# Arms\n\n## Hands\n\nh\n\n## Feet\n\nf\n"
    [chunk] = cut(source, 20, "path")
    assert (chunk.chunk_context, chunk.section_path) == ("Arms", "Arms > Hands")
    assert [c.chunk_context for c in cut(source, 6, "path")] == ["Arms > Hands", "Arms > Feet"]


def test_a_long_section_is_cut_as_it_is_alone() -> None:
    long = "# A\n\n" + "Word. " * 20 + "\n\n# B\n\nb\n"
    texts = [chunk.text for chunk in cut(long, 8)]
    assert texts == [chunk.text for chunk in chunk_page(parse_page(long, "guide/page.md"), 8, words)]
