"""Reports of grids follow the published schema, which names every field of them."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evals.errors import ReportError
from evals.grid.choice import HeldOut
from evals.grid.measure import Measured
from evals.report.generate import SCHEMA
from evals.report.parsing import parse
from evals.stats.intervals import Interval
from tests.support.grids import swept_of, with_swept
from tests.support.json_schema import closed
from tests.support.results import report

PUBLISHED: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))


def written(grid: Measured) -> dict[str, Any]:
    return report(grid).plain()


def faults(made: dict[str, Any]) -> list[Any]:
    """Return the violations of the schema, fields that it does not name included."""
    return [
        *Draft202012Validator(PUBLISHED).iter_errors(made),
        *Draft202012Validator(closed(PUBLISHED)).iter_errors(made),
    ]


def read(made: dict[str, Any]) -> Any:
    """Return the section as a reader gets it."""
    return parse(json.dumps(made), "r").model_dump(mode="json", exclude_unset=True)


def test_a_grid_follows_the_schema_and_is_described_by_it_in_full(grid: Measured) -> None:
    made = written(grid)
    assert faults(made) == [] and read(made) == made
    assert made["grid"]["held_out"] is None and made["grid"]["abstention"]
    assert len(made["grid"]["configurations"]) == 2


def test_so_does_one_with_a_held_out_figure(grid: Measured) -> None:
    held = HeldOut(label="c", value=0.5, n=9, interval=Interval(note="too few"), chosen_on=0.6, optimism=0.1)
    made = written(with_swept(grid, held_out=held))
    assert faults(made) == [] and read(made) == made


def test_so_does_one_that_is_not_ranked_or_has_no_threshold(grid: Measured) -> None:
    made = written(
        with_swept(grid, choice=None, abstaining=None, ranking=replace(swept_of(grid).ranking, reason="why", order=()))
    )
    assert faults(made) == [] and read(made) == made


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("axes", "threshold"), "all"),
        (("cells", "top_k"), 5),
        (("cells", "threshold"), ["0.3"]),
        (("cells",), None),
        (("choice", "standings"), [{}]),
        (("ranking", "order"), None),
        (("abstention",), "fair"),
        (("metrics", "ranking/ndcg_at_10", "n"), None),
        (("configurations",), {}),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_schema_and_reader_refuse_what_is_no_grid(grid: Measured, place: tuple[str, ...], value: Any) -> None:
    made = copy.deepcopy(written(grid))
    *parents, last = ("grid", *place)
    node = made
    for key in parents:
        node = node[key]
    node[last] = value
    assert not Draft202012Validator(PUBLISHED).is_valid(made)
    with pytest.raises(ReportError, match=r"grid\."):
        parse(json.dumps(made), "r")
