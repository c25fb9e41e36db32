"""Prose is told from code, tables and references."""

import pytest

from evals.golden.chunks import prose

SENTENCE = "An encoder counts the turns of a joint, and a resolver gives its angle."


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        f"# Encoders\n\n{SENTENCE}",
        f"---\ntitle: Encoders\ntags: [a, b]\n---\n\n# Encoders\n\n{SENTENCE}",
        f"```python\nx = 1\n```\n\n{SENTENCE}",
        f"x = read(port)[0]\nreturn x\n```\n\n{SENTENCE}",  # cut inside a block of code
        f"{SENTENCE}\n```python\nangle of the joint\n",
        f"| a | b |\n|---|---|\n| 1 | 2 |\n\n{SENTENCE}",
        f"Short one.\n\n{SENTENCE}",
        f"{SENTENCE}\n\n## References\n\nSome book about the encoders of many joints and their makers.",
        f"- [Encoders](/a.md)\n- [Joints](/b.md)\n\n{SENTENCE}",
    ],
)
def test_the_sentence_is_found(text: str) -> None:
    assert prose(text) == SENTENCE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Encoders",
        "```\nsome words in a block\n```",
        "def read(port, *, raw=False):\n    return f(port)[0] if raw else None",
        "References\n\nDoe, J. Encoders and their use in many machines.",
        "[1] Doe, Encoders and their use in many machines\n[2] Roe, Joints",
        "See https://example.org/encoders",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "---\ntitle: Encoders\n---",
    ],
)
def test_there_is_none(text: str) -> None:
    assert prose(text) == ""


def test_a_short_text_is_better_than_none() -> None:
    assert prose("It is so.\n\nIt is.") == "It is so."
