"""Cranfield as documents and golden queries, from a folder outside the project."""

import json
import re
from pathlib import Path


def write_world(data: Path, box: Path) -> None:
    """Write `pages.jsonl` and `golden.jsonl`.

    Args:
        data: Folder of `cran.all.1400.xml`, `cran.qry.xml` and `cranqrel.trec.txt`.
        box: Where to.
    """
    pages = re.findall(
        r"(?s)<docno>(.*?)</docno>.*?<title>(.*?)</title>.*?<text>(.*?)</text>", _read(data, "cran.all.1400.xml")
    )
    with (box / "pages.jsonl").open("w", encoding="utf-8") as file:
        for number, title, text in pages:
            if text.strip():
                one = {"_id": number.strip(), "title": " ".join(title.split()), "text": " ".join(text.split())}
                file.write(json.dumps(one) + "\n")
    held = {number.strip() for number, _, text in pages if text.strip()}
    labels: dict[int, dict[str, int]] = {}
    for query, _, document, grade in map(str.split, _read(data, "cranqrel.trec.txt").splitlines()):
        if document in held and int(grade) > 0:
            labels.setdefault(int(query), {})[document] = int(grade)
    topics = re.findall(r"(?s)<top>.*?<title>(.*?)</title>", _read(data, "cran.qry.xml"))
    with (box / "golden.jsonl").open("w", encoding="utf-8") as file:
        for number, query in enumerate(topics, start=1):  # the judgements count the topics, whatever their <num>
            if number in labels:
                case = {"id": f"c{number}", "query": " ".join(query.split()), "relevant_ids": labels[number]}
                file.write(json.dumps(case | {"split": "dev" if number % 2 else "test"}) + "\n")


def _read(data: Path, name: str) -> str:
    return (data / name).read_text("utf-8")
