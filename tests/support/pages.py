"""Three small pages: a topic page, its neighbour, and one without front matter; and their true chunks."""

from pathlib import Path

from evals.cases.pages import SourcePages
from retrievers.indexing.chunking import chunk_page
from retrievers.records import Chunk

TOPICS = """\
---
title: Topics
sidebar_position: 2
tags: [ros2, messaging]
---

Nodes exchange messages on topics.

# Topics

A topic is a named bus.

## Publishers

A publisher sends messages.
Anyone may listen.

Mind the queue.

## Subscribers

A subscriber receives messages.

Mind the queue.

```bash
# not a heading
ros2 topic list
```
"""
SERVICES = """\
---
title: Services
sidebar_position: 3
tags: [ros2]
---

## Calls

A client waits for the answer of one server.
"""
PLAIN = "# Plain page\n\nNothing is said of it in front.\n"
FILES = {"module-1/topics.md": TOPICS, "module-1/services.md": SERVICES, "plain.md": PLAIN}


def write_pages(folder: Path) -> Path:
    """Write the pages below a folder."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def read_pages(folder: Path) -> SourcePages:
    """Write the pages below a folder and read them as sources, with addresses below `/docs`."""
    return SourcePages.read(write_pages(folder), "/docs")


def true_chunks(sources: SourcePages, file_path: str) -> tuple[Chunk, ...]:
    """Return the chunks of a page as indexing makes them, one a block or so (words stand for tokens)."""
    page = next(p.page for p in sources.pages if p.page.file_path == file_path)
    return chunk_page(page, 8, lambda text: len(text.split()))
