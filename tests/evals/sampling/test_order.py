"""Every beginning of the judging order is a simple random sample. What is no sample: tests/settings."""

from collections import Counter
from statistics import fmean

import pytest

from evals.cases.case import Case
from evals.config.judge import JudgeConfig
from evals.sampling.order import judging_order, sample_size, uniform


def case(case_id: str, query_type: str = "factual", *, in_scope: bool = True) -> Case:
    return Case(
        id=case_id, query="q", query_type=query_type, in_scope=in_scope, relevant_ids={"a": 1} if in_scope else {}
    )


CASES = [
    *(case(f"f{number}") for number in range(60)),
    *(case(f"p{number}", "procedural") for number in range(30)),
    *(case(f"k{number}", "keyword") for number in range(10)),
    case("soup", in_scope=False),
]


def test_every_query_is_as_likely_to_be_drawn() -> None:
    draws = Counter(case_id for seed in range(2_000) for case_id in judging_order(CASES, seed)[:20])
    assert set(draws) == {case.id for case in CASES if case.in_scope}
    # 2,000 draws of probability 0.2: a standard deviation is 18.
    assert all(abs(count - 400) < 90 for count in draws.values())


def test_a_name_has_a_number_of_its_own_from_0_to_1() -> None:
    found = [uniform(seed, "case", str(number)) for seed in (0, 1) for number in range(1_000)]
    assert 0 <= min(found) and max(found) < 1 and len(set(found)) == 2_000
    assert found != [uniform(0, "other", str(number)) for number in range(2_000)]
    assert fmean(found) == pytest.approx(0.5, abs=0.03)


def test_the_order_is_that_of_the_cases_whatever_theirs_and_how_often_they_come() -> None:
    assert judging_order(CASES, 7) == judging_order([*reversed(CASES), *CASES], 7) != judging_order(CASES, 8)


@pytest.mark.parametrize(
    ("written", "queries", "size"),
    [
        ("all", 66, 66),
        ("0.1", 230, 23),
        (0.1, 66, 10),
        (0.5, 66, 33),
        (0.1, 8, 8),
        ("40", 66, 40),
        (400, 66, 66),
        ("auto", 66, 20),
        ("auto", 12, 12),
    ],
)
def test_the_size_of_the_sample(written: object, queries: int, size: int) -> None:
    assert sample_size(JudgeConfig.model_validate({"sample": written}).sample, queries) == size
