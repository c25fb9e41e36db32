"""Columns of tables and the fields of a case that they are for."""

from evals.golden.case import Case, Evidence
from evals.golden.mapped_columns import FIELDS, mapped, parse_columns


def test_every_field_of_a_case_has_a_column() -> None:
    assert {*FIELDS} == {*Case.model_fields, *Evidence.model_fields, "contexts"} - {
        "evidence",
        "human_verdicts",
        "labelling",
    }
    assert mapped([("t:1", {"query": "how?"})], parse_columns([], {}), []) == [("t:1", {"id": "q001", "query": "how?"})]
