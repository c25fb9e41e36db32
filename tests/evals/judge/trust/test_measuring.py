"""Trust in the judges of a cascade, whose last tier are people."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from evals.cases.case import Labelling
from evals.collect.observations import Observation
from evals.judge.trust import measure
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.sampling.order import judging_order
from tests.support.judged import judging
from tests.support.observed import make_case, observe, results

CHUNKS = ("a", "b")


IDS = [f"q{number:03}" for number in range(130)]
ORDER = judging_order((make_case(key) for key in IDS), 0)


def observations(labelled: Collection[str], **fields: Any) -> list[Observation]:
    """Queries whose first chunk people find useful, but for every third."""
    return [
        observe(
            results(*CHUNKS),
            {"a": 1},
            case=make_case(
                key,
                reference_answer="r",
                **({"human_verdicts": {"a": int(number % 3 > 0), "b": 0}, **fields} if key in labelled else {}),
            ),
        )
        for number, key in enumerate(IDS)
    ]


def verdicts(case_ids: Sequence[str], wrong: int) -> dict[tuple[str, str], ChunkVerdict]:
    """A judge that is wrong about every so many queries."""
    return {
        (key, chunk): ChunkVerdict(
            verdict=int((chunk == "a" and IDS.index(key) % 3 > 0) != (IDS.index(key) % wrong == 0)), reason=""
        )
        for key in case_ids
        for chunk in CHUNKS
    }


def cascade(drawn: int) -> Judging:
    small = judging(model="small", verdicts=verdicts(IDS, 7))
    strong = ORDER[:drawn]
    return judging(model="large", verdicts=verdicts(strong, 10), drawn=frozenset(strong), below=small)


def test_people_are_the_last_tier_where_they_labelled_the_first_queries_of_the_order() -> None:
    trust = measure(cascade(40), observations(ORDER[:20]), 0)
    (correction,) = trust.corrections
    assert correction.corrected.value is not None
    assert (correction.raw.n, correction.labels_alone.n) == (40, 20)
    assert correction.weight is not None and correction.judge == 0
    between, with_people = trust.tiers
    assert between is not None and between.n_verdicts == 80
    assert with_people is not None and with_people.n_verdicts == 40


def test_a_strong_judge_of_fewer_queries_than_people_is_left_out() -> None:
    (correction,) = measure(cascade(10), observations(ORDER[:20]), 0).corrections
    assert correction.corrected.value is not None and correction.judge == 0


def test_chosen_queries_are_said_not_to_be_enough() -> None:
    trust = measure(cascade(40), observations(ORDER[60:90]), 0)
    (correction,) = trust.corrections
    assert (
        correction.corrected.value is None
        and "100 are needed where they are not the first" in correction.corrected.note
    )
    assert len(trust.tiers) == 1


def test_labels_that_say_more_of_the_labelled_queries_do_not_correct_people() -> None:
    """The label of each query is that its first chunk is relevant, and that people have found it so for all."""
    labelling = Labelling(by=["ada"], at="2026-11-23", pool=[], depth=3)
    useful = [
        replace(o, relevance=replace(o.relevance, grades={})) if int(o.case.id[1:]) % 3 == 0 else o
        for o in observations(ORDER[:20])
    ]
    alone = replace(cascade(40), below=None)
    (correction,) = measure(alone, useful, 0).corrections
    assert correction.judge is None and correction.weight is not None and correction.weight > 0.9
    cases = [o.case.model_copy(update={"labelling": labelling} if o.case.human_verdicts else {}) for o in useful]
    marked = [replace(o, case=case) for o, case in zip(useful, cases, strict=True)]
    (correction,) = measure(alone, marked, 0).corrections
    assert correction.judge is None and correction.weight == 0


def test_agreement_is_between_neighbours() -> None:
    (agreement,) = measure(cascade(40), [], 0).tiers
    assert agreement is not None and agreement.n_verdicts == 80
