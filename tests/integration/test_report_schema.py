"""The report of the default run follows the published schema, which names every field of it."""

import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from tests.support.child import Finished
from tests.support.json_schema import closed
from tests.support.reports import read_back

pytestmark = pytest.mark.integration


def test_the_default_report_follows_the_published_schema(finished: Finished) -> None:
    schema = json.loads(files("evals.report").joinpath("schema.json").read_text(encoding="utf-8"))
    assert list(Draft202012Validator(schema).iter_errors(finished.report)) == []
    assert list(Draft202012Validator(closed(schema)).iter_errors(finished.report)) == []


def test_nothing_is_lost_on_reading_it(finished: Finished) -> None:
    text = finished.report_file.read_text(encoding="utf-8")
    assert read_back(text) == finished.report
