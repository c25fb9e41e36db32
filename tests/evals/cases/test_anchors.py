"""Fragments of addresses: which of them name a place of the page."""

import pytest

from evals.cases.pages import anchors_of, leads_to
from retrievers.indexing.markdown import parse_page
from retrievers.indexing.pages import html_page

PAGE = """---
title: Motors
---

# The `limit` element

Text with an <a id="by-hand"></a> anchor.

## Gains & limits

One.

## Gains & limits

Two.

## Über 10 V: what's allowed? {#Volt}

Three.

### use_sim_time

```bash
# not a heading
```
"""


def test_headings_have_the_anchors_that_docusaurus_gives_them() -> None:
    assert anchors_of(parse_page(PAGE, "motors.md")) == {
        "the-limit-element",
        "by-hand",
        "gains--limits",
        "gains--limits-1",
        "Volt",
        "use_sim_time",
    }


def test_an_html_page_has_the_ids_of_its_elements() -> None:
    page = html_page('<meta name="author"><h1 id="top">A</h1><nav id="menu"></nav><a name="old">b</a>', "/x")
    assert anchors_of(page) == {"top", "menu", "old"}


@pytest.mark.parametrize(
    ("fragment", "leads"),
    [
        ("gains--limits", True),
        ("gains-limits", True),
        ("gains-limits_1", True),
        ("gains-limits-2", False),
        ("Gains--limits", False),
        ("use_sim_time", True),
        ("use-sim-time", True),
        ("%C3%BCber", False),
        ("Volt", True),
        ("not-a-heading", False),
        (":~:text=Three", True),
        ("", False),
    ],
)
def test_where_a_fragment_leads(fragment: str, leads: bool) -> None:
    assert leads_to(fragment, anchors_of(parse_page(PAGE, "motors.md"))) == leads


def test_a_fragment_may_be_written_with_percent_signs() -> None:
    assert leads_to("%C3%BCber-uns", frozenset({"über-uns"}))
