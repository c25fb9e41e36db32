"""Rankings to results: chunks are read for what is wanted of them and for what ties, in one request for all queries."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from retrievers.records import RetrievedChunk
from retrievers.rerank.mmr import Pick, with_pick
from retrievers.search.ranking import Ranking, in_order, undecided
from retrievers.search.selection import Cut, Decisive, Selection
from retrievers.store.stored_chunks import Chunks

Choose = Callable[[Sequence[float]], Cut]
"""What the threshold reads of each candidate, in their order, to the places of those that are kept."""


def candidates(rankings: Sequence[Ranking], chunks: Chunks) -> list[tuple[RetrievedChunk, ...]]:
    """All candidates of each ranking, in the total order (score descending, then chunk id ascending), ranked from 1.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    now = datetime.now(UTC)
    orders = _orders(rankings, chunks, [_by_score(ranking) for ranking in rankings])
    return [
        tuple(_retrieved(ranking, point, rank, chunks, now) for rank, point in enumerate(order, 1))
        for ranking, order in zip(rankings, orders, strict=True)
    ]


def selections(
    rankings: Sequence[Ranking], chunks: Chunks, choose: Choose, on: Decisive
) -> list[tuple[Selection, int]]:
    """What is chosen of each ranking, and of how many candidates; as `select` would of all candidates.

    Args:
        rankings: Of each query.
        chunks: Where chunks are read.
        choose: The threshold and the cut.
        on: Which score it reads.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    now = datetime.now(UTC)
    wanted = []
    for ranking in rankings:
        order = _by_score(ranking)
        places = _chosen(ranking, order, choose, on)
        wanted.append([order[place] for place in (*places.kept, *places.below)])
    return [
        (_selection(ranking, order, _chosen(ranking, order, choose, on), chunks, now), len(order))
        for ranking, order in zip(rankings, _orders(rankings, chunks, wanted), strict=True)
    ]


def total_orders(rankings: Sequence[Ranking], chunks: Chunks) -> list[list[str]]:
    """The points of each ranking in the total order; only the chunks of those that tie are read.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    return _orders(rankings, chunks, [])


def diversified(
    rankings: Sequence[Ranking],
    orders: Sequence[Sequence[str]],
    picks: Sequence[Sequence[Pick]],
    chunks: Chunks,
    choose: Choose,
    on: Decisive,
) -> list[tuple[Selection, int]]:
    """What is chosen of each ranking in the order of its picks; as `select` would of all candidates, diversified.

    Args:
        rankings: Of each query.
        orders: Their total orders.
        picks: Places of each order, as maximal marginal relevance picks them.
        chunks: Where chunks are read.
        choose: The threshold and the cut.
        on: Which score it reads.

    Raises:
        CollectionChangedError: A candidate is gone.
        StoreError: The store failed.
    """
    now = datetime.now(UTC)
    moved = [[order[pick.index] for pick in each] for order, each in zip(orders, picks, strict=True)]
    cuts = [_chosen(ranking, order, choose, on) for ranking, order in zip(rankings, moved, strict=True)]
    shown = zip(moved, cuts, strict=True)
    chunks.read(order[place] for order, places in shown for place in (*places.kept, *places.below))
    return [
        (_with_picks(_selection(ranking, order, places, chunks, now), order, each), len(order))
        for ranking, order, places, each in zip(rankings, moved, cuts, picks, strict=True)
    ]


def _with_picks(selection: Selection, order: Sequence[str], picks: Sequence[Pick]) -> Selection:
    """With what `diversify` adds to a chunk; `order` is that of the picks."""
    by_point = dict(zip(order, picks, strict=True))

    def added(shown: Sequence[RetrievedChunk]) -> tuple[RetrievedChunk, ...]:
        return tuple(with_pick(found, found.rank, by_point[found.chunk.point_id]) for found in shown)

    return replace(selection, chunks=added(selection.chunks), below_threshold=added(selection.below_threshold))


def _chosen(ranking: Ranking, order: Sequence[str], choose: Choose, on: Decisive) -> Cut:
    scores = ranking.components["semantic"] if on == "semantic" else ranking.scores
    return choose([scores[point] for point in order])


def _by_score(ranking: Ranking) -> list[str]:
    """The order as far as scores decide it."""
    return in_order(ranking.scores, ranking.depth, {})


def _orders(rankings: Sequence[Ranking], chunks: Chunks, wanted: Sequence[Sequence[str]]) -> list[list[str]]:
    """The total orders, with the chunks of what is wanted read.

    What is wanted was asked of the orders as far as scores decide them. The rest of the order only moves points of
    equal score among themselves, all of which are read for it, so whatever then comes to be wanted is read as well.
    """
    tied = [undecided(ranking.scores, ranking.depth, every_place=True) for ranking in rankings]
    chunks.read(point for points in (*tied, *wanted) for point in points)
    return [
        in_order(ranking.scores, ranking.depth, chunks.ids(points))
        for ranking, points in zip(rankings, tied, strict=True)
    ]


def _selection(ranking: Ranking, order: Sequence[str], places: Cut, chunks: Chunks, now: datetime) -> Selection:
    kept = [order[place] for place in places.kept]
    return Selection(
        chunks=tuple(_retrieved(ranking, point, rank, chunks, now) for rank, point in enumerate(kept, 1)),
        below_threshold=tuple(_retrieved(ranking, order[place], place + 1, chunks, now) for place in places.below),
        filtered_out=places.filtered_out,
        highest_below=places.highest_below,
    )


def _retrieved(ranking: Ranking, point: str, rank: int, chunks: Chunks, now: datetime) -> RetrievedChunk:
    return RetrievedChunk(
        rank=rank,
        score=ranking.scores[point],
        score_scale=ranking.scale,
        scores={name: scores[point] for name, scores in ranking.components.items() if point in scores},
        chunk=chunks[point],
        retrieved_at=now,
    )
