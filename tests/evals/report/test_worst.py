from dataclasses import replace

import pytest

from evals.collect.observations import Failure, Unscored
from evals.config.experiment import SourcesConfig
from evals.grid.measure import Measured
from evals.judge.tasks import PRECISION
from evals.judge.verdicts import ChunkVerdict
from evals.report.model import ChunkEntry, Hit
from evals.report.section import Section, line, terminal
from evals.report.sections import worst_queries
from evals.report.text import hit_cells, worst
from tests.support.judged import judging
from tests.support.results import config, hit, observation, report, report_of, result, verdict


def shown(made: Measured, *, color: bool = False, everything: bool = True) -> str:
    section = worst_queries(report(made), everything=everything)
    return terminal([section], width=100, color=color) if section else ""


def test_a_query_stands_with_its_tags_and_a_terminal_links_its_chunks_to_their_files() -> None:
    asked = observation("q", [hit(1, 0.9, "b")], 1, {"a": 1}, tags=["tf2", "[frames]"])
    made = result(
        config=config().model_copy(update={"sources": SourcesConfig.model_validate({"dir": "/data/docs"})}),
        observed=replace(result().observed, observations=(asked,)),
        validation=report_of([verdict("q", "FAILURE", "why")]),
    )
    assert "q query q  tf2 · [frames]" in shown(made)
    assert "file:///" not in shown(made)
    assert "file:///data/docs/b.md#L1" in shown(made, color=True)


def test_the_five_worst_are_failures_first_then_least_relevant_then_most_confident_then_by_id() -> None:
    plan = [
        ("fine", "SUCCESS", 1.0, 0.5),
        ("partial", "PARTIAL_SUCCESS", 0.0, 0.9),
        ("half", "FAILURE", 0.5, 0.9),
        ("shy", "FAILURE", 0.0, 0.4),
        ("b", "FAILURE", 0.0, 0.7),
        ("a", "FAILURE", 0.0, 0.7),
        ("sure", "FAILURE", 0.0, 0.8),
        ("last", "PARTIAL_SUCCESS", 0.5, 0.9),
    ]
    made = result(
        observed=replace(
            result().observed, observations=tuple(observation(n, [hit(1, s, "x")], 1) for n, _, _, s in plan)
        ),
        validation=report_of([verdict(n, o, "why", relevance=r) for n, o, r, _ in plan]),  # type: ignore[arg-type]
    )
    assert [row.id for row in worst(report(made).queries)] == ["sure", "a", "b", "shy", "half"]


def test_without_labels_those_are_among_the_worst_that_the_judge_grades_poor() -> None:
    scores = {"poor": 0.2, "fair": 0.6, "bad": 0.0}
    made = result(
        observed=replace(
            result().observed,
            observations=tuple(observation(n, [hit(1, 0.5, "x")], 1, in_scope=True) for n in scores),
        ),
        scores={PRECISION: scores},
        validation=report_of([verdict(n, "UNLABELLED", "no labels") | {"content_relevance": None} for n in scores]),
    )
    assert [row.id for row in worst(report(made).queries)] == ["bad", "poor"]
    assert f"by the judge: {PRECISION} 0.200" in shown(made)


def test_what_the_judge_found_useless_stands_below_with_its_reason() -> None:
    hits = [hit(1, 0.9, "a"), hit(2, 0.8, "b"), hit(3, 0.7, "c")]
    made = result(
        observed=replace(result().observed, observations=(observation("q", hits, 3, {"a": 1}),)),
        validation=report_of([verdict("q", "FAILURE", "why")]),
        judging=judging(
            verdicts={
                ("q", "a"): ChunkVerdict(verdict=1, reason="It says all."),
                ("q", "b"): ChunkVerdict(verdict=0, reason="It is about [soup]."),
                ("q", "c"): Failure(type="Timeout", message="no answer in time"),
            }
        ),
    )
    lines = [one.strip() for one in shown(made).split("\n")]
    assert "It says all." not in shown(made)
    assert lines[lines.index("2. cosine 0.800   b.md:2-3  text of b") + 1] == "judged useless: It is about [soup]."
    assert lines[lines.index("3. cosine 0.700   c.md:3-4  text of c") + 1] == "not judged: Timeout: no answer in time"


def test_at_first_there_are_three_queries_and_two_chunks_of_each() -> None:
    hits = [hit(n, 0.9 - n / 100, f"c{n}") for n in range(1, 5)]
    made = result(
        observed=replace(result().observed, observations=tuple(observation(f"q{n}", hits, 4) for n in range(5))),
        validation=report_of([verdict(f"q{n}", "FAILURE", "why", "and why") for n in range(5)]),
    )
    first, whole = shown(made, everything=False), shown(made)
    assert [first.count(text) for text in ("query q", "c1.md", "c2.md", "c3.md", "and why")] == [3, 3, 3, 0, 0]
    assert [whole.count(text) for text in ("query q", "c1.md", "c3.md", "c4.md", "and why")] == [5, 5, 5, 0, 5]


@pytest.mark.parametrize("width", [40, 60, 78, 200])
def test_a_chunk_takes_one_line_with_the_end_of_its_source_and_the_beginning_of_its_text(width: int) -> None:
    known = Hit(rank=2, score=0.5, scale="weighted", chunk_id="c", grade=1)
    text = "## Heading\nand [the] text " * 9
    known._chunk = ChunkEntry(source=f"a/{'very-' * 12}long/path.md:10-12", text=text)
    [plain] = terminal([Section(lines=[line(*hit_cells(known), is_cut=True)])], width=width, color=False).splitlines()
    assert plain.startswith("2. weighted 0.500 ✓ ") and "path.md:10-12" in plain
    assert len(plain) <= width
    assert ("Heading and [the]" in plain) == (width > 70)


def test_what_was_not_asked_is_passed_over() -> None:
    made = result(judging=judging(verdicts={("wrong", "b"): Unscored(reason="the budget is spent")}))
    assert "judged" not in shown(made) and "judged" not in shown(result())
