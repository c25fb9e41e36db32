import math
import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrievers.search.confidence import Side, apart, confidence, suggestions, warnings

from retrievers.records import Chunk, RetrievedChunk


def found(*cosines: float, **known: Any) -> tuple[RetrievedChunk, ...]:
    return tuple(
        RetrievedChunk(
            rank=rank,
            score=cosine,
            score_scale="cosine",
            scores={"semantic": cosine},
            chunk=Chunk(**{"chunk_id": f"c{rank}", "point_id": f"p{rank}", "text": "t", **known}),
        )
        for rank, cosine in enumerate(cosines, 1)
    )


def warned(*cosines: float, could_spread: bool = True, **known: Any) -> tuple[str, ...]:
    """Warnings of a result with these scores."""
    return warnings(found(*cosines, **known), 0, None, 0.3, could_spread=could_spread)


def test_the_figures_are_those_of_the_scores() -> None:
    """0.8, 0.6, 0.4: mean 0.6, population deviation sqrt((0.04 + 0 + 0.04) / 3)."""
    judged = confidence(found(0.8, 0.6, 0.4), 5, 0.3)
    assert judged.average == pytest.approx(0.6)
    assert (judged.minimum, judged.maximum, judged.coverage) == (0.4, 0.8, 0.6)
    assert judged.deviation == pytest.approx(math.sqrt(0.08 / 3))


@pytest.mark.parametrize(
    ("cosines", "top_k", "threshold", "level"),
    [
        ((0.6, 0.4, 0.4), 5, 0.4, "high"),  # clear from 0.4 + 0.25 * 0.6 = 0.55 on; 3 of 5
        ((0.54, 0.4, 0.4), 5, 0.4, "medium"),
        ((0.6, 0.4), 5, 0.4, "medium"),  # 2 of 5 is less than half
        ((0.54, 0.4), 5, 0.4, "low"),
        ((0.25,), 2, 0.0, "high"),  # both limits are inclusive
        ((1.0,), 1, 1.0, "high"),
        ((0.9,), 1, 0.3, "high"),
        ((), 5, 0.3, "none"),
    ],
)
def test_the_level_counts_a_clear_best_score_and_half_of_the_places(
    cosines: tuple[float, ...], top_k: int, threshold: float, level: str
) -> None:
    assert confidence(found(*cosines), top_k, threshold).level == level


def test_the_reason_gives_both_signs() -> None:
    assert confidence(found(0.54, 0.4), 5, 0.4).reason == "best cosine score 0.54 < 0.55, 2 of 5 places filled"
    assert confidence(found(0.6), 1, 0.4).reason == "best cosine score 0.60 ≥ 0.55, 1 of 1 places filled"


def test_scores_close_to_a_bound_are_told_apart_from_it() -> None:
    assert confidence(found(0.549), 1, 0.4).reason.startswith("best cosine score 0.549 < 0.550,")
    assert confidence(found(0.55), 1, 0.4).reason.startswith("best cosine score 0.55 ≥ 0.55,")
    assert apart(0.3, 0.30000001, 3) == ("0.30000000", "0.30000001")
    assert apart(1.0, 1.0, 3) == ("1.000", "1.000")


def test_the_scores_judged_are_those_that_the_threshold_reads() -> None:
    """Cosines 0.9 and 0.8, reranked to 0.5 and 0.4: by the cosine clearly above 0.4, by the final score not."""
    reranked = [
        replace(chunk, score=score, score_scale="rerank")
        for chunk, score in zip(found(0.9, 0.8), (0.5, 0.4), strict=True)
    ]
    by_cosine, by_final = (confidence(reranked, 2, 0.4, on=on) for on in ("each", "final"))
    assert (by_cosine.scale, by_cosine.maximum, by_cosine.level) == ("cosine", 0.9, "high")
    assert (by_final.scale, by_final.maximum, by_final.level) == ("rerank", 0.5, "medium")
    assert by_final.average == pytest.approx(0.45)
    assert by_final.reason == "best rerank score 0.50 < 0.55, 2 of 2 places filled"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_figures_are_those_of_the_standard_library(cosines: list[float]) -> None:
    judged = confidence(found(*cosines), 20, 0.3)
    assert judged.average == statistics.fmean(cosines)
    assert judged.deviation == pytest.approx(statistics.pstdev(cosines), abs=1e-12)


def test_nothing_has_no_figures() -> None:
    judged = confidence((), 5, 0.3)
    assert (judged.average, judged.minimum, judged.maximum, judged.deviation) == (None, None, None, None)
    assert (judged.coverage, judged.reason) == (0.0, "nothing was found")


def test_everything_below_the_threshold_is_warned_of() -> None:
    assert warnings((), 7, 0.2612, 0.3) == ("all 7 candidates are below the threshold 0.3; the best has 0.261",)


def one_page(page: str) -> tuple[str, ...]:
    return (f"all 3 results are from one page ({page}); rerank: mmr spreads them",)


@pytest.mark.parametrize(
    ("cosines", "known", "said"),
    [
        ((0.9, 0.8, 0.7), {"source_url": "/docs/a"}, one_page("/docs/a")),
        ((0.9, 0.8, 0.7), {"file_path": "a.md"}, one_page("a.md")),
        ((0.9, 0.8), {"source_url": "/docs/a"}, ()),
        ((0.9, 0.8, 0.7), {}, ()),  # no page is known
        ((), {}, ()),
    ],
)
def test_three_or_more_results_of_one_page_are_warned_of(
    cosines: tuple[float, ...], known: dict[str, Any], said: tuple[str, ...]
) -> None:
    assert warned(*cosines, **known) == said


def test_results_of_two_pages_are_not_warned_of() -> None:
    chunks = (*found(0.9, 0.8, source_url="/docs/a"), *found(0.7, source_url="/docs/b"))
    assert warnings(chunks, 0, None, 0.3) == ()


def test_spreading_is_not_advised_where_it_is_on_or_out_of_reach() -> None:
    assert warned(0.9, 0.8, 0.7, source_url="/docs/a", could_spread=False) == (
        "all 3 results are from one page (/docs/a)",
    )


@pytest.mark.parametrize(
    ("side", "best_below", "tips"),
    [
        ("keywords", 0.2, ("lower", "ask in other", "search by keywords as well (mode: hybrid)")),
        (
            "meaning",
            0.2,
            ("lower", "ask in other", "search by meaning as well (mode: hybrid) or instead (mode: sem"),
        ),
        ("keywords", None, ("no candidate was found at all",)),
        ("meaning", None, ("no candidate was found at all", "search by meaning as well (mode: hybrid) or instead")),
        (None, None, ("no candidate was found at all",)),
    ],
)
def test_the_other_side_is_suggested(side: Side | None, best_below: float | None, tips: tuple[str, ...]) -> None:
    found = suggestions(best_below, other_side=side)
    assert len(found) == len(tips)
    assert all(said.startswith(tip) for said, tip in zip(found, tips, strict=True))


@pytest.mark.parametrize(
    ("best_below", "tips"),
    [
        (
            None,
            (
                "no candidate was found at all: is the collection empty, does a filter let nothing through, "
                "or has the query no word to search for?",
            ),
        ),
        (0.2999, ("lower the threshold to 0.29 to see the best match", "ask in other or fewer words")),
        (0.0, ("lower the threshold to 0 to see the best match", "ask in other or fewer words")),
    ],
)
def test_a_way_on_is_suggested_when_nothing_was_found(best_below: float | None, tips: tuple[str, ...]) -> None:
    assert suggestions(best_below) == tips


@pytest.mark.parametrize("best", [k / 100 for k in range(100)])
def test_the_suggested_threshold_lets_the_best_match_through(best: float) -> None:
    threshold = float(suggestions(best)[0].split()[4])
    assert best - 0.0101 <= threshold <= best
