"""The recipe of CONTRIBUTING.md for a report field, followed to the letter in a copy of the code."""

import json
from pathlib import Path

import pytest

from tests.support.recipes import follow, run

pytestmark = pytest.mark.slow
GENERATE_AND_BUILD = """
import json, runpy
from tests.support.results import report
runpy.run_path(".ci/schema.py", run_name="__main__")
print(json.dumps(report().plain()))
"""


def test_a_field_that_is_added_by_the_recipe_is_in_report_and_schema(tmp_path: Path) -> None:
    assert len(follow("Add a report field", tmp_path, ("evals", "tests/support", "docs", ".ci"))) == 2
    done = run(tmp_path, "-c", GENERATE_AND_BUILD)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["queries"][0]
    assert (first["query"], first["words"]) == ("query right", 2)
    schema = json.loads((tmp_path / "evals/report/schema.json").read_text(encoding="utf-8"))
    assert schema["$defs"]["QueryRow"]["properties"]["words"]["type"] == "integer"
    assert schema["$defs"]["QueryRow"]["properties"]["words"]["description"] == "number of words of the query"
