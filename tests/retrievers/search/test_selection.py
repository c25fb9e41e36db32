"""What becomes of candidates: threshold, groups and cut by brute force; confidence, warnings and suggestions."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, Confidence, RetrievalSession, RetrievedChunk, ScoreScale
from retrievers.search.selection import answered
from tests.support.candidates import candidates_of
from tests.support.selecting import select as select_by_hand


def hits(*pairs: tuple[float | None, float], scale: ScoreScale = "weighted", **known: Any) -> list[RetrievedChunk]:
    """Return candidates of (final score, cosine), each of a page of its own unless one is named."""
    return [
        RetrievedChunk(
            rank=rank,
            score=score,
            score_scale=scale,
            scores={"semantic": cosine},
            chunk=Chunk(
                **{"chunk_id": f"c{rank}", "point_id": f"p{rank}", "text": "t", "source_url": str(rank)} | known
            ),
        )
        for rank, (score, cosine) in enumerate(pairs, 1)
    ]


def cosines(*values: float, **known: Any) -> list[RetrievedChunk]:
    return hits(*((value, value) for value in values), scale="cosine", **known)


def settled(**values: Any) -> RetrieverConfig:
    return RetrieverConfig.model_validate({"mode": "hybrid", **values})


def session(found: Sequence[RetrievedChunk], **values: Any) -> RetrievalSession:
    told: dict[str, Any] = {"parameters": {}, "embedding": {}}
    return answered(candidates_of(found), settled(**values), told, sparse_vectors=("bm25",))


SCORES = st.sampled_from([0.0, 0.1, 0.3, 0.30000001192092896, 0.5, 1.0])


@given(
    pairs=st.lists(st.tuples(SCORES, SCORES), max_size=12),
    top_k=st.integers(1, 13),
    threshold=st.none() | SCORES,
    on=st.sampled_from(["each", "best", "final"]),
    urls=st.lists(st.sampled_from(["/a", "/b", "/c", None]), min_size=12, max_size=12),
    grouped=st.booleans(),
)
def test_a_selection_is_that_by_brute_force(
    pairs: list[tuple[float, float]],
    top_k: int,
    threshold: float | None,
    on: str,
    urls: list[str | None],
    grouped: bool,
) -> None:
    found = [
        replace(hit, chunk=replace(hit.chunk, source_url=url)) for hit, url in zip(hits(*pairs), urls, strict=False)
    ]
    group_by = "source_url" if grouped else None
    given: dict[str, Any] = {"top_k": top_k, "threshold": threshold, "threshold_on": on, "group_by": group_by}
    ours, expected = session(found, **given), select_by_hand(found, top_k, threshold, on=on, group_by=group_by)
    assert (ours.chunks, ours.below_threshold) == (expected.chunks, expected.below_threshold)
    assert (ours.filtered_out, ours.candidates_found) == (expected.filtered_out, len(found))
    more = session(found, **given | {"top_k": top_k + 1})
    assert more.chunks[:top_k] == ours.chunks, "a larger top_k only adds at the end"


@pytest.mark.parametrize(
    ("field", "values", "kept"),
    [
        ("tags", [("a", "b"), ("a",), ("a", "b")], [1, 2]),
        ("sidebar_position", [1.0, 1, 2], [1, 3]),
        ("url", ["/a", "/A", "/a"], [1, 2]),  # an alias of source_url
        ("url", [None, None, "/a"], [1, 2, 3]),  # without a page each stands alone
    ],
)
def test_a_group_is_of_equal_values_of_any_kind(field: str, values: list[Any], kept: list[int]) -> None:
    name = {"url": "source_url"}.get(field, field)
    found = [
        replace(hit, chunk=replace(hit.chunk, **{name: value}))
        for hit, value in zip(cosines(0.9, 0.8, 0.7), values, strict=True)
    ]
    assert [hit.chunk.chunk_id for hit in session(found, group_by=field).chunks] == [f"c{number}" for number in kept]


# Confidence

UNTOLD = "which nothing tells to be near or far"


def sure(found: Sequence[RetrievedChunk], **values: Any) -> Confidence:
    confidence = session(found, **{"threshold": 0.0, **values}).confidence
    assert confidence is not None
    return confidence


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.sampled_from(["each", "final"]))
def test_the_figures_are_those_of_the_standard_library_of_what_the_threshold_reads(
    values: list[float], on: str
) -> None:
    ordered = sorted(values, reverse=True)
    pairs = [(value, 0.5) if on == "final" else (0.5, value) for value in ordered]
    judged = sure(hits(*pairs), top_k=20, threshold_on=on)
    assert judged.scale == ("weighted" if on == "final" else "cosine")
    assert judged.average == pytest.approx(statistics.fmean(ordered), abs=1e-12)
    assert judged.deviation == pytest.approx(statistics.pstdev(ordered), abs=1e-12)
    assert (judged.minimum, judged.maximum, judged.coverage) == (min(values), max(values), len(values) / 20)


@pytest.mark.parametrize(
    ("values", "top_k", "threshold", "level", "reason"),
    [
        # Clear from 0.4 + 0.25 * 0.6 = 0.55 on; 3 of 5 is half of the places.
        ((0.6, 0.4, 0.4), 5, 0.4, "high", "best cosine score 0.600 ≥ 0.550, 3 of 5 places filled"),
        ((0.54, 0.4, 0.4), 5, 0.4, "medium", "best cosine score 0.540 < 0.550, 3 of 5 places filled"),
        ((0.549,), 5, 0.4, "low", "best cosine score 0.549 < 0.550, 1 of 5 places filled"),
        ((1.0,), 1, 1.0, "high", "best cosine score 1.000 ≥ 1.000, 1 of 1 places filled"),
        ((0.9,), 1, None, "medium", f"best cosine score 0.900, {UNTOLD}, 1 of 1 places filled"),
        ((), 5, 0.3, "none", "nothing was found"),
    ],
)
def test_the_level_counts_a_clear_best_score_and_half_of_the_places(
    values: tuple[float, ...], top_k: int, threshold: float | None, level: str, reason: str
) -> None:
    judged = sure(cosines(*values), top_k=top_k, threshold=threshold)
    assert (judged.level, judged.reason) == (level, reason)


# Warnings and suggestions

ONE_PAGE = "all 3 results are from one page"


@pytest.mark.parametrize(
    ("values", "known", "said"),
    [
        ((0.9, 0.8, 0.7), {"source_url": "/a"}, [f"{ONE_PAGE} (/a); rerank: mmr spreads them"]),
        ((0.9, 0.8, 0.7), {"source_url": "/a", "rerank": "mmr"}, [f"{ONE_PAGE} (/a)"]),
        ((0.9, 0.8, 0.7), {"source_url": None, "file_path": "a.md", "rerank": "mmr"}, [f"{ONE_PAGE} (a.md)"]),
        ((0.9, 0.8, 0.7), {"source_url": None}, []),  # no page is known
        ((0.9, 0.8), {"source_url": "/a"}, []),
        ((0.9, 0.8, 0.7), {}, []),
        ((0.2612, 0.1), {}, ["all 2 candidates are below the threshold 0.3; the best has 0.261"]),
    ],
)
def test_a_result_of_one_page_or_of_none_is_warned_of(
    values: tuple[float, ...], known: dict[str, Any], said: list[str]
) -> None:
    settings = {"threshold": 0.3, "rerank": known.pop("rerank", "none")}
    assert [*session(cosines(*values, **known), **settings).warnings] == said


LOWER, NOTHING = "lower the threshold to 0.2 to see the best match", "no candidate was found at all: is the collection"
KEYWORDS, MEANING = "search by keywords as well (mode: hybrid)", "search by meaning as well (mode: hybrid) or instead"


@pytest.mark.parametrize(
    ("values", "mode", "said"),
    [
        ((0.9,), "semantic", ()),
        ((0.2,), "hybrid", (LOWER,)),
        ((0.2,), "semantic", (LOWER, KEYWORDS)),
        ((0.2,), "keyword", (LOWER, MEANING)),
        ((), "hybrid", (NOTHING,)),
        ((), "keyword", (NOTHING, MEANING)),
    ],
)
def test_where_nothing_is_returned_a_way_on_is_suggested(
    values: tuple[float, ...], mode: str, said: tuple[str, ...]
) -> None:
    given = session(cosines(*values), mode=mode, threshold=0.3).suggestions
    assert len(given) == len(said) and all(one.startswith(text) for one, text in zip(given, said, strict=True))


@given(st.floats(0, 0.999))
def test_the_suggested_threshold_lets_the_best_match_through(best: float) -> None:
    suggested = float(session(cosines(best), threshold=1.0).suggestions[0].split()[4])
    assert best - 0.0101 <= suggested <= best


ENGLISH = (
    "The planner avoids obstacles by sampling the space of configurations and checks each step for collisions. " * 2
)
GERMAN = "Wie vermeidet der Planer die Hindernisse im Raum der Konfigurationen und was kostet das an Zeit?"


@pytest.mark.parametrize(
    ("query", "score", "noted"),
    [
        (GERMAN, 0.3, True),
        (GERMAN, 0.9, False),  # a result that looks sure: a model of several languages finds it in any
        ("Wie vermeidet der Planer Hindernisse?", 0.3, False),  # below eight words nobody can tell
        ("how does the planner avoid the obstacles in its way to the goal", 0.3, False),
    ],
)
def test_a_query_in_another_language_is_noted(query: str, score: float, noted: bool) -> None:
    found = candidates_of(cosines(score, text=ENGLISH), query)
    warned = answered(found, settled(threshold=0.2, top_k=1), {"parameters": {}}).warnings
    assert ("the query seems to be German, and what was found is English" in warned) == noted
