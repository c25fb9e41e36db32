"""Anchors of a page: the places that a fragment of its address can name. Pure."""

import re
from collections import Counter
from itertools import pairwise
from urllib.parse import unquote

from retrievers.indexing.markdown import Page, heading_text, page_tokens

HEADING_ID = re.compile(r"\{#([^}]+)\}\s*$")
ELEMENT_ID = re.compile(r"""\b(?:id|name)=["']([^"'\s]+)["']""")
NO_SLUG = re.compile(r"[^\w\- ]")
GAPS = re.compile(r"[-_]+")


def anchors_of(page: Page) -> frozenset[str]:
    """Return the anchors of a page: the ids of its elements, or of Markdown the slugs of its headings.

    A slug is formed as GitHub and Docusaurus form it; `{#id}` behind a heading takes its place, and a repeated one is
    numbered from 1.
    """
    if page.ids:
        return page.ids
    anchors = set(ELEMENT_ID.findall(page.text))
    counts: Counter[str] = Counter()
    for opening, inline in pairwise(page_tokens(page.text)):
        if opening.type == "heading_open":
            explicit = HEADING_ID.search(inline.content)
            slug = explicit[1] if explicit else NO_SLUG.sub("", heading_text(inline).lower()).replace(" ", "-")
            anchors.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
            counts[slug] += 1
    return frozenset(anchors)


def leads_to(fragment: str, anchors: frozenset[str]) -> bool:
    """Return True if a fragment names one of these anchors, or a passage by its text (`:~:text=`).

    Sites differ in the hyphens and underscores of a slug: a stretch of either counts as one hyphen.
    """
    if ":~:" in fragment:
        return True
    return _comparable(unquote(fragment)) in map(_comparable, anchors)


def _comparable(anchor: str) -> str:
    return GAPS.sub("-", anchor).strip("-")
