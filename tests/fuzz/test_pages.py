"""Markdown to be indexed and pages of a site: 20,000 of each are read or refused."""

from pathlib import Path
from random import Random

import pytest

from evals.cases.pages import SourcePage
from retrievers.indexing.chunking import chunk_page
from retrievers.indexing.markdown import PageError, parse_page
from retrievers.indexing.pages import html_page
from tests.support.fuzz import fuzz, mutated

MARKDOWN = (
    "---\ntitle: Topics\nslug: /t\nid: t\ntags: [ros2, {label: bus}]\nsidebar_position: 2\n---\n\n"
    "Nodes *exchange* [messages](x.md) on `topics`.\n\n# Topics {#top}\n\nA named bus.\n\n## Rates\n\n"
    "Ask often. Wait.\n",
    "import Tabs from '@theme/Tabs';\n\nexport const a = (\n  1\n\n);\n\n<Tabs groupId={x => y}>\n\n- one\n  - two\n\n"
    "1. three\n\n</Tabs>\n\n{/* hidden\n\n*/}\n\n> quoted\n",
    "Title\n=====\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n```bash\n# no heading\nros2 topic list\n```\n\n"
    "    code\n\n[ref]: /x 'y'\n",
    "<div>\n\ntext &amp; \\* **more** ![i](j)\n\n</div>\n\n<!-- c -->\n\n***\n\n[ref] and <https://a.example>\n",
)
MARKDOWN_TOKENS = (
    "[", "]", "(", "![", "*", "**", "_", "`", "```\n", "~~~", "> ", "- ", "1. ", "# ", "---\n", "===\n", "|", "|-|\n",
    "<a ", "<A =>", "</", ">", "<!--", "-->", "{/*", "*/}", "\n\n", "&#", "&amp;", "\\", "    ", "[a]: ",
    "export const a = (",
    "import a from ", "&a ", "*a", "<<: ", "title: ", "sidebar_position: ", "tags: ", "slug: ../", '"\\uD800"',
    "word ", "a. ",
)  # fmt: skip
HTML = (
    "<!doctype html><html><head><title>T | H</title><style>p{}</style></head><body><nav>x</nav><main><h1>T</h1>"
    "<p>A <b>named</b> bus.</p><h2>R<a href='#r'>\u200b</a></h2><ul><li>a &amp; b</ul></main>"
    "<script>1<2</script></body>",
    "<table><tr><td>a<td>b</table><pre>c\n d</pre><svg><text>x</text></svg><template>t</template><br/>end",
    "<![CDATA[x]]><?pi?><!--c--><p title='q\">r'>&#x41;&nope;&#99999999;<h3>s",
)
HTML_TOKENS = (
    "<", ">", "</", "/>", "<!", "<![", "<![foo[", "]]>", "<!--", "-->", "<?", "&", "&#", ";", "'", '"', "=",
    "<p>", "</p>", "<div>",
    "<h1>", "</h1>", "<nav>", "<script>", "</script>", "<title>", "<table>", "<td>", "<b>", "<a href=", "<svg>",
    "<template>",
    "<plaintext>", "<textarea>", "<select><option>", "<frameset>", "word ",
)  # fmt: skip


def index(text: str) -> None:
    page = parse_page(text.encode(errors="replace").decode(), "guide/page.md")  # a file is UTF-8
    chunks = chunk_page(page, 16, lambda part: len(part.split()))
    source = SourcePage(page)
    for chunk in chunks[:20]:
        assert all(word in page.text for word in chunk.text.split())
        source.facts(chunk)


def read(html: str) -> None:
    page = SourcePage(html_page(html, "/docs/page"))
    page.text.encode()
    assert next(page.occurrences(page.text[:20]), None) is not None or not page.text


@pytest.mark.slow
def test_any_markdown_is_indexed_or_refused() -> None:
    fuzzed = fuzz(index, lambda random: mutated(random, MARKDOWN, MARKDOWN_TOKENS), refusals=PageError)
    assert fuzzed.read > 10_000 and fuzzed.refused > 200


@pytest.mark.slow
def test_any_page_of_a_site_is_read() -> None:
    fuzzed = fuzz(read, lambda random: mutated(random, HTML, HTML_TOKENS), refusals=PageError)
    assert fuzzed.read == 20_000


def test_the_beginnings_are_read(tmp_path: Path) -> None:
    for text in MARKDOWN:
        index(text)
    for html in HTML:
        read(html)
    assert mutated(Random(0), MARKDOWN, MARKDOWN_TOKENS)
