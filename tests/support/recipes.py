"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the code."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.command import ROOT, python

BLOCK = re.compile(r"```(?:python|yaml)\n(.*?)```", re.DOTALL)
STEP = re.compile(r"^# (\S+\.(?:py|yaml)), (new|before: .+|after: .+)\n", re.MULTILINE)


def steps(title: str) -> list[tuple[str, str, str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    parts = STEP.split("".join(BLOCK.findall(recipe)))[1:]
    return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


def follow(title: str, copy: Path, folders: Sequence[str]) -> set[str]:
    for folder in folders:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file, place, lines in steps(title):
        how, _, anchor = place.partition(": ")
        path = copy / file
        source = lines if how == "new" else _changed(path.read_text(encoding="utf-8"), how, anchor, lines)
        path.write_text(source, encoding="utf-8")
    return {file for file, _, _ in steps(title)}


def run(copy: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return python(arguments, copy, {"PYTHONPATH": f"{copy}:{ROOT}", "HOME": str(copy), **(env or {})})


def _changed(source: str, how: str, anchor: str, lines: str) -> str:
    found = re.findall(rf"^ *{re.escape(anchor)}$", source, re.MULTILINE)
    assert len(found) == 1, f"{anchor!r} stands {len(found)} times"
    [line] = found
    whole = f"{lines}{line}" if how == "before" else f"{line}\n{lines.rstrip()}"
    return source.replace(f"\n{line}\n", f"\n{whole}\n")
