"""Small PDF files, written by hand: a page for each text, in Helvetica; a page without text for an empty one."""

from collections.abc import Sequence


def pdf(texts: Sequence[str], title: str = "") -> bytes:
    """Return a PDF; the lines of a text stand below each other."""
    contents = [_content(text) for text in texts]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(texts)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
        objects.append(f"{page}/Resources << /Font << /F1 3 0 R >> >> >>".encode())
        objects.append(f"<< /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream")
    objects.append(f"<< /Title ({title}) >>".encode())
    return _file(objects)


def _content(text: str) -> bytes:
    lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n") if line)
    return f"BT /F1 12 Tf 72 720 Td {lines} ET".encode("latin-1") if lines else b""


def _file(objects: Sequence[bytes]) -> bytes:
    data, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = b"".join(f"{offset:010} 00000 n \n".encode() for offset in offsets)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    size = len(objects) + 1
    trailer = f"trailer << /Size {size} /Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + head + table + trailer.encode()
