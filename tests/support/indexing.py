"""Folders of pages (Markdown, PDF), their true chunks, embeddings that count, a collection's whole content."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from qdrant_client import QdrantClient

from retrievers.config import RetrieverConfig

DIMENSION = 8


class HashEmbeddings(Embeddings):
    """Deterministic vectors; remembers what it embedded, and fails at a text that holds `poison`."""

    def __init__(self, dimension: int = DIMENSION, poison: str | None = None) -> None:
        self.dimension = dimension
        self.poison = poison
        self.embedded: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.poison and any(self.poison in text for text in texts):
            raise ConnectionError("the provider went away")
        self.embedded += texts
        return [[byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[: self.dimension]] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


make_embeddings = HashEmbeddings


def make_other_length() -> Embeddings:
    return HashEmbeddings(dimension=DIMENSION + 1)


def make_failing() -> Embeddings:
    return HashEmbeddings(poison="text")


def read_texts(folder: Path) -> dict[str, str]:
    return {page.relative_to(folder).as_posix(): page.read_text("utf-8") for page in sorted(folder.rglob("*.md"))}


def write_pages(folder: Path, sources: Mapping[str, str]) -> Path:
    for name, source in sources.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8", newline="")
    return folder


def settings(store: Path | str, **changes: Any) -> RetrieverConfig:
    model = {"model": "python:tests.support.indexing:make_embeddings"}
    place = {"path": store} if isinstance(store, Path) else {"url": store}
    return RetrieverConfig.model_validate({"store": place, "collection": "pages", "embedding": model} | changes)


def content(client: QdrantClient, name: str = "pages") -> dict[str, tuple[dict[str, Any], list[float]]]:
    records, rest = client.scroll(name, limit=10_000, with_payload=True, with_vectors=True)
    assert rest is None
    return {str(record.id): (dict(record.payload or {}), _unit(record.vector)) for record in records}


def _unit(vector: Any) -> list[float]:
    values: list[float] = vector.get("") or next(iter(vector.values())) if isinstance(vector, dict) else vector
    length = math.sqrt(sum(value * value for value in values))
    return [round(value / length, 6) for value in values]


def manifest(client: QdrantClient, name: str = "pages") -> Any:
    return (client.get_collection(name).config.metadata or {}).get("retrieval_evals")


# A topic page, its neighbour, and one without front matter

FILES = read_texts(Path(__file__).parent / "pages" / "topics")
TOPICS = FILES["module-1/topics.md"]


def pdf(texts: Sequence[str], title: str = "") -> bytes:
    from pypdf import PdfWriter
    from pypdf.generic import ContentStream, DictionaryObject, NameObject

    writer, file = PdfWriter(), BytesIO()
    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})
    fonts = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
    for text in texts:
        page, stream = writer.add_blank_page(612, 792), ContentStream(None, None)
        lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n") if line)
        stream.set_data(f"BT /F1 12 Tf 72 720 Td {lines} ET".encode("latin-1") if lines else b"")
        page[NameObject("/Resources")], page[NameObject("/Contents")] = fonts, stream
    writer.add_metadata({"/Title": title})
    writer.write(file)
    return file.getvalue()
