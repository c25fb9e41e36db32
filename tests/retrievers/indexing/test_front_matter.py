"""Front matter that means harm: refused in time, in a message that can be read. What it says is in test_markdown."""

import time

import pytest

from retrievers.indexing.markdown import FrontMatter, PageError, read_front_matter

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 20))


def read(content: str) -> FrontMatter:
    return read_front_matter(content, f"---\n{content}\n---\ntext")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (BOMB + "tags: *a19\n", r"front matter: tags.0 must be text or have a label, got \[\["),
        (BOMB + "title: *a19\n", r"front matter: title must be text, got \[\["),
        ("a: " + "[" * 20_000, "line 2: the front matter is nested too deeply"),
        ("sidebar_position: " + "1" * 5_000, "front matter: sidebar_position must be a number, got '111"),
        ("sidebar_position: " + "1" * 30, "front matter: sidebar_position must be a number, got '111"),
        ("sidebar_position: " + "1" * 30_000 + "x", "front matter: sidebar_position must be a number, got '111"),
        ('title: "\\uD800"', r"front matter: title holds half a character \(a lone surrogate\)"),
        ('tags: [a, "\\uDFFF"]', r"front matter: tags.1 holds half a character \(a lone surrogate\)"),
        ("slug: " + "../" * 5_000, "front matter: slug has 15,000 characters; expected at most 1,000"),
        ("a: b\n" * 10_000, "the front matter has 50,000 characters; expected at most 32,768"),
        ("a: &a [*a]", "line 2: the front matter is not valid YAML: found unconstructable recursive node"),
        ("? [a]\n: b", "line 2: the front matter is not valid YAML: found unhashable key"),
    ],
)
def test_what_means_harm_is_refused_in_time(content: str, fault: str) -> None:
    start = time.process_time()
    with pytest.raises(PageError, match=f"^{fault}") as caught:
        read(content)
    assert time.process_time() - start < 30  # expanded, the bomb would take for ever; refused, 1 s, with coverage 3.3 s
    assert len(str(caught.value)) < 400


def test_a_bomb_that_nobody_lights_is_harmless() -> None:
    assert read(BOMB + "title: T").title == "T"


@pytest.mark.parametrize(("written", "value"), [("-3", -3), ("1e2", 100.0), ("2.5", 2.5), ("9007199254740992", 2**53)])
def test_a_position_may_be_whole_or_broken(written: str, value: float) -> None:
    assert read(f"sidebar_position: {written}").sidebar_position == value
