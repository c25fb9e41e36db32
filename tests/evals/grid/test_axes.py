from itertools import product
from typing import Any, get_args

import pytest
from pydantic import PositiveInt

from evals.config.experiment import SweepConfig
from evals.errors import ExperimentError
from evals.grid.axes import VARIANT_AXES, Plan, effective, plan
from retrievers.config import Fusion, Mode, RerankerName, RetrieverConfig


def planned(sweep: dict[str, Any], **base: Any) -> Plan:
    return plan(RetrieverConfig.model_validate(base), SweepConfig.model_validate(sweep))


def test_cuts_and_thresholds_need_one_retrieval() -> None:
    made = planned({"top_k": "1:20", "threshold": "0:0.95:0.05"})
    [variant] = made.variants
    assert (variant.name, variant.settings.top_k, variant.settings.threshold) == ("semantic", 20, 0.0)
    assert made.top_ks == tuple(range(1, 21))
    assert variant.thresholds == tuple(pytest.approx(n / 20) for n in range(20)) and variant.thresholds[3] == 0.15


EVERY = {"mode": ["semantic", "keyword", "hybrid"], "fusion": ["weighted", "rrf", "dbsf"], "rerank": ["none", "mmr"]}


@pytest.mark.parametrize(
    ("sweep", "base", "expected"),
    [
        (EVERY, {}, [
            "semantic", "semantic mmr", "keyword", "keyword mmr", "hybrid weighted", "hybrid weighted mmr",
            "hybrid rrf", "hybrid rrf mmr", "hybrid dbsf", "hybrid dbsf mmr"]),
        ({"fusion": ["weighted", "rrf"]}, {}, ["semantic"]),
        ({"candidates": "100,50"}, {}, ["semantic"]),
        ({"candidates": "50,100"}, {"mode": "keyword"}, ["keyword candidates 50", "keyword candidates 100"]),
        ({"candidates": "50,100"}, {"group_by": "module"}, ["semantic candidates 50", "semantic candidates 100"]),
    ],
)  # fmt: skip
def test_combinations_that_find_the_same_are_one_and_of_depths_that_change_nothing_the_least(
    sweep: dict[str, Any], base: dict[str, Any], expected: list[str]
) -> None:
    made = planned(sweep, **base)
    assert [variant.name for variant in made.variants] == expected
    if "candidates" in sweep:
        assert made.variants[0].settings.candidates == 50


@pytest.mark.parametrize(
    ("sweep", "base", "said"),
    [
        ({"top_k": "1:20"}, {"candidates": 10}, "top_k is 20 and exceeds the candidate depth 10"),
        ({"top_k": "1:20", "candidates": "10,30"}, {}, "top_k is 20 and exceeds the candidate depth 10"),
        ({"mode": "hybrid", "fusion": ["weighted", "rrf"]}, {"threshold_on": "final"},
         "threshold_on 'final' would compare the threshold with rrf scores"),
        ({"mode": ["semantic", "keyword"]}, {"threshold_on": "final"}, "use threshold_on: each"),
        ({"top_k": "5,200"}, {}, "sweep: top_k: Input should be less than or equal to 100, got 200"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_any_work(sweep: dict[str, Any], base: dict[str, Any], said: str) -> None:
    with pytest.raises(ExperimentError) as raised:
        planned(sweep, **base)
    assert said in str(raised.value)


BASES = [
    {"mode": mode, "fusion": fusion, "rerank": rerank, "threshold": 0.3}
    for mode, fusion, rerank in product(get_args(Mode), get_args(Fusion), get_args(RerankerName))
]


def two_values(name: str) -> tuple[Any, Any]:
    """Two values of an axis, by its type: two of its choices, or two numbers that every such setting may have."""
    (kind,) = {kind for kind in get_args(SweepConfig.model_fields[name].annotation) if kind is not ...}
    choices: dict[Any, tuple[Any, Any]] = {PositiveInt: (50, 60)}
    choices[RerankerName] = ("none", "mmr")
    return choices.get(kind) or get_args(kind)[:2]


@pytest.mark.parametrize("name", VARIANT_AXES)
def test_every_declared_axis_changes_the_key_of_a_variant_wherever_it_applies(name: str) -> None:
    one, other = two_values(name)
    applicable = [base for base in BASES if name in effective(RetrieverConfig.model_validate(base))]
    assert applicable, "there is a way to retrieve in which it means something"
    for base in applicable:
        made = planned({name: [one, other]}, **base).variants
        assert len({tuple(effective(variant.settings).items()) for variant in made}) == 2
        assert {variant.parameters[name] for variant in made} == {one, other}
        assert len({variant.name for variant in made}) == 2
