"""What becomes of candidates: rerankers, threshold, groups and cut; confidence, warnings and suggestions."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from syrupy.assertion import SnapshotAssertion

from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, RerankError
from retrievers.records import Chunk, RetrievalSession, RetrievedChunk, ScoreScale
from retrievers.search.rerank import cross_encoder, mmr_order
from retrievers.search.selection import answered
from tests.support.cohere_server import KEY, CohereServer, relevance, reranked
from tests.support.hybrid import select_by
from tests.support.loopback import Fault
from tests.support.observed import candidates_of

# Rerankers

QUERY = "red robot arm"
TEXTS = ("blue sea", "a red robot", "red robot arm", "arm")
OWN = "python:tests.support.rerankers:"
Order = list[tuple[int, float]]


def encoder(env: dict[str, str] | None = None, **values: Any) -> Callable[[str, Sequence[str]], Order]:
    """Make the cross-encoder of the settings, as a function of a query and texts."""
    settings = RetrieverConfig.model_validate({"rerank": "cross-encoder", "cross_encoder": values})
    score = cross_encoder(settings, env or {})

    def order(query: str, texts: Sequence[str]) -> Order:
        return sorted(enumerate(score(query, texts)), key=lambda pair: -pair[1])

    return order


def by_definition(relevance: Sequence[float], vectors: NDArray[np.float64], lambda_: float) -> list[int]:
    def likeness(one: int, other: int) -> float:
        a, b = vectors[one], vectors[other]
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    picked: list[int] = []
    while len(picked) < len(relevance):
        left = [i for i in range(len(relevance)) if i not in picked]
        nearest = {i: max([likeness(i, one) for one in picked], default=0.0) for i in left}
        picked.append(max(left, key=lambda i: (lambda_ * relevance[i] - (1 - lambda_) * nearest[i], -i)))
    return picked


@given(
    st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.55, 0.9]), max_size=9).map(lambda values: sorted(values, reverse=True)),
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]),
)
def test_mmr_is_its_definition(relevance: list[float], seed: int, lambda_: float) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(relevance), 3))
    assert mmr_order(np.asarray(relevance), vectors, lambda_) == by_definition(relevance, vectors, lambda_)


# Cohere


@pytest.fixture
def cohere() -> Iterator[CohereServer]:
    with CohereServer() as server:
        yield server


@pytest.mark.parametrize(("values", "model"), [({}, "rerank-v3.5"), ({"model": "cohere:rerank-v4.0"}, "rerank-v4.0")])
def test_cohere_is_asked_for_all_texts_in_one_request(cohere: CohereServer, values: dict[str, str], model: str) -> None:
    order = encoder({"COHERE_API_KEY": KEY}, base_url=cohere.url, **values)(QUERY, TEXTS)
    assert order == [(2, 1.0), (1, 0.5), (3, pytest.approx(1 / 3, abs=1e-6)), (0, 0.0)]
    assert [relevance(QUERY, text) for text in TEXTS] == [0.0, 0.5, 1.0, 0.333333]
    [request] = cohere.requests
    assert (request.path, request.headers["authorization"]) == ("/v2/rerank", f"Bearer {KEY}")
    body = {key: value for key, value in request.body.items() if value is not None}
    assert body == {"model": model, "query": QUERY, "documents": [*TEXTS]}


UNFIT = {
    "index too high": [(0, 0.5), (9, 0.4)],
    "index twice": [(0, 0.5), (0, 0.4)],
    "too few": [(0, 0.5)],
    "too many": [(0, 0.5), (1, 0.4), (1, 0.3)],
    "nan": [(0, math.nan), (1, 0.5)],
}


@pytest.mark.parametrize("scored", UNFIT.values(), ids=UNFIT)
def test_an_answer_that_fits_no_texts_is_told(cohere: CohereServer, scored: Any, snapshot: SnapshotAssertion) -> None:
    rerank = encoder({"COHERE_API_KEY": KEY}, base_url=cohere.url)
    with cohere.failing(Fault(reply=reranked(scored))), pytest.raises(RerankError) as caught:
        rerank("q", ["a", "b"])
    assert str(caught.value) == snapshot and len(cohere.requests) == 1


# A user's own

SCORED = [(2, 1.0), (1, pytest.approx(2 / 3)), (3, pytest.approx(1 / 3)), (0, 0.0)]


@pytest.mark.parametrize("name", ["Scorer", "Predictor", "ScoringCompressor"])
def test_every_kind_of_reranker_is_taken(name: str) -> None:
    assert encoder(model=OWN + name)(QUERY, TEXTS) == SCORED


UNSCORED = "ReversingCompressor FilteringCompressor ForgetfulCompressor RepeatingCompressor SilentCompressor"
FAULTY = f"{UNSCORED} Failing Short NotANumber Wordy fail make_nothing"
TARGETS = [*(OWN + name for name in FAULTY.split()), "python:no_such_module:make", "python:builtins:dict"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_reranker_that_fails_is_named(target: str, snapshot: SnapshotAssertion) -> None:
    with pytest.raises((ConfigError, RerankError)) as caught:
        encoder(model=target)(QUERY, TEXTS)
    assert f"{caught.type.__name__}: {caught.value}".replace(str(Path.cwd()), "FOLDER") == snapshot
    assert "\n" not in str(caught.value)


def test_sentence_transformers_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = {"model": "sentence-transformers:own/model"}
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ConfigError, match=r"needs an extra: pip install 'retrieval-evals\[rerank\]'"):
        encoder(**own)
    package = SimpleNamespace(CrossEncoder=lambda name: SimpleNamespace(predict=lambda pairs: [*map(len, pairs)]))
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    assert encoder(**own)("q", ["a"]) == [(0, 2.0)]
    package.CrossEncoder = lambda name: 1 / 0
    with pytest.raises(ConfigError, match="'sentence-transformers:own/model' cannot be loaded: ZeroDivisionError"):
        encoder(**own)


# Threshold, groups and cut, by brute force


def hits(*pairs: tuple[float | None, float], scale: ScoreScale = "weighted", **known: Any) -> list[RetrievedChunk]:
    """Return candidates of (final score, cosine), each of a page of its own unless one is named."""
    found = []
    for rank, (score, cosine) in enumerate(pairs, 1):
        own: dict[str, Any] = {"chunk_id": f"c{rank}", "point_id": f"p{rank}", "text": "t", "source_url": str(rank)}
        scores = {"semantic": cosine}
        chunk = Chunk(**own | known)
        found.append(RetrievedChunk(rank=rank, score=score, score_scale=scale, scores=scores, chunk=chunk))
    return found


def cosines(*values: float, **known: Any) -> list[RetrievedChunk]:
    return hits(*((value, value) for value in values), scale="cosine", **known)


def settled(**values: Any) -> RetrieverConfig:
    return RetrieverConfig.model_validate({"mode": "hybrid", **values})


def session(found: Sequence[RetrievedChunk], **values: Any) -> RetrievalSession:
    told: dict[str, Any] = {"parameters": {}, "embedding": {}}
    return answered(candidates_of(found), settled(**values), told)


SCORES = st.sampled_from([0.0, 0.1, 0.3, 0.30000001192092896, 0.5, 1.0])

ON, GROUP = st.sampled_from(["each", "best", "final"]), st.sampled_from(["source_url", None])
GIVEN: Any = st.builds(dict, top_k=st.integers(1, 13), threshold=st.none() | SCORES, threshold_on=ON, group_by=GROUP)
URLS = st.sampled_from(["/a", "/b", "/c", None])


@given(st.lists(st.tuples(SCORES, SCORES, URLS), max_size=12), GIVEN)
def test_a_selection_is_that_by_brute_force(drawn: list[tuple[float, float, str | None]], given: Any) -> None:
    pairs = hits(*((score, cosine) for score, cosine, _ in drawn))
    found = [
        replace(hit, chunk=replace(hit.chunk, source_url=url)) for hit, (_, _, url) in zip(pairs, drawn, strict=True)
    ]
    ours, (kept, below) = session(found, **given), select_by(settled(**given), found)
    assert (ours.chunks, ours.below_threshold) == (tuple(kept), tuple(below[:3]))
    assert (ours.filtered_out, ours.candidates_found) == (len(below), len(found))
    more = session(found, **given | {"top_k": given["top_k"] + 1})
    assert more.chunks[: given["top_k"]] == ours.chunks, "a larger top_k only adds at the end"


def test_a_group_is_of_equal_values_of_any_kind() -> None:
    rows: list[tuple[str, list[Any], list[str]]] = [
        ("tags", [("a", "b"), ("a",), ("a", "b")], ["c1", "c2"]),
        ("sidebar_position", [1.0, 1, 2], ["c1", "c3"]),
        ("url", ["/a", "/A", "/a"], ["c1", "c2"]),  # an alias of source_url
        ("url", [None, None, "/a"], ["c1", "c2", "c3"]),  # without a page each stands alone
    ]
    for field, values, kept in rows:
        name = {"url": "source_url"}.get(field, field)
        found = cosines(0.9, 0.8, 0.7)
        found = [replace(hit, chunk=replace(hit.chunk, **{name: own})) for hit, own in zip(found, values, strict=True)]
        assert [hit.chunk.chunk_id for hit in session(found, group_by=field).chunks] == kept


# What is said of it

ONE = {"source_url": "/a"}
SAID: dict[str, tuple[list[RetrievedChunk], dict[str, Any]]] = {
    # Clear from 0.4 + 0.25 * 0.6 = 0.55 on; 3 of 5 is half of the places.
    "clear": (cosines(0.6, 0.4, 0.4), {"threshold": 0.4}),
    "not quite clear": (cosines(0.54, 0.4, 0.4), {"threshold": 0.4}),
    "neither clear nor many": (cosines(0.549), {"threshold": 0.4}),
    "clear of the highest threshold": (cosines(1.0), {"threshold": 1.0, "top_k": 1}),
    "without a threshold": (cosines(0.9), {"threshold": None, "top_k": 1}),
    "by the final score": (hits((0.8, 0.5), (0.4, 0.6)), {"threshold_on": "final"}),
    "by the cosine": (hits((0.8, 0.5), (0.4, 0.6)), {}),
    "one page": (cosines(0.9, 0.8, 0.7, **ONE), {}),
    "one page, spread by MMR": (cosines(0.9, 0.8, 0.7, **ONE), {"rerank": "mmr"}),
    "one file": (cosines(0.9, 0.8, 0.7, source_url=None, file_path="a.md"), {"rerank": "mmr"}),
    "no page is known": (cosines(0.9, 0.8, 0.7, source_url=None), {}),
    "two of one page": (cosines(0.9, 0.8, **ONE), {}),
    "three pages": (cosines(0.9, 0.8, 0.7), {}),
    "all below": (cosines(0.2612, 0.1), {}),
    "nothing": ([], {}),
}


@pytest.mark.parametrize(("found", "values"), SAID.values(), ids=SAID)
def test_what_a_session_says(found: list[RetrievedChunk], values: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    told = session(found, **{"threshold": 0.3, "top_k": 5} | values)
    assert told.confidence is not None
    sure = f"{told.confidence.level}: {told.confidence.reason}; {told.confidence.scale} {told.confidence.average!s:.8}"
    assert [sure, *told.warnings, *told.suggestions] == snapshot


@given(st.floats(0, 0.999))
def test_the_suggested_threshold_lets_the_best_match_through(best: float) -> None:
    suggested = float(session(cosines(best), threshold=1.0).suggestions[0].split()[4])
    assert best - 0.0101 <= suggested <= best


ENGLISH = "The planner avoids obstacles by sampling the space of configurations and checks each of its steps. " * 2
GERMAN = "Wie vermeidet der Planer die Hindernisse im Raum der Konfigurationen und was kostet das an Zeit?"


def test_a_query_in_another_language_is_noted_where_the_result_looks_unsure() -> None:
    for score, noted in ((0.3, True), (0.9, False)):
        found = candidates_of(cosines(score, text=ENGLISH), GERMAN)
        warned = answered(found, settled(threshold=0.2, top_k=1), {"parameters": {}}).warnings
        assert warned == ("the query seems to be German, and what was found is English",) * noted
