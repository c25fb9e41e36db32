"""docs/doctor.md names every check."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_table_names_every_check() -> None:
    code = "\n".join(file.read_text() for file in (ROOT / "retrievers/doctor").glob("*.py"))
    table = (ROOT / "docs/doctor.md").read_text().split("| check |")[1]
    assert set(re.findall(r'check="([^"]+)"', code)) == set(re.findall(r"`([a-z]+/[a-z_]+)`", table))
