"""Ranked lists and their relevance as arrays, for metrics over all prefixes at once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Small = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class RelevanceArrays:
    """Ranked lists with their relevance; rows are lists.

    Attributes:
        gains: Grade of the chunk at each place, 0 where it is not relevant or the list has ended; (lists, longest).
        relevant: The number of relevant chunks, found or not; (lists,).
        ideal: The highest grades of all that is relevant, descending, 0 beyond the last; (lists, at least 10).
        count_items: Counts the evidence items that the first n hold, n from 0; (lists, longest + 1).
        item_count: The number of evidence items; (lists,).
        count_tokens: Counts the tokens of the chunk at each place, 0 beyond the end; (lists, longest).
        fewest: The number of chunks that the case asks for at least; (lists,).
        read_cosines: Reads the cosine of the chunk at each place, -1 beyond the end; NaN in lists of a retriever that
            gives none; (lists, longest).
        read_judged: Reads 1 where the chunk at a place is judged, relevant or not, else 0; (lists, longest).
        irrelevant: The number of chunks that are judged not relevant, found or not; (lists,).
    """

    gains: Small
    relevant: Integers
    ideal: Small
    count_items: Callable[[], Small] | None = None
    item_count: Integers | None = None
    count_tokens: Callable[[], Small] | None = None
    fewest: Integers | None = None
    read_cosines: Callable[[], Floats] | None = None
    read_judged: Callable[[], Small] | None = None
    irrelevant: Integers | None = None

    @cached_property
    def items_found(self) -> Small:
        """The number of evidence items that the first n hold; counted where a metric asks for it."""
        assert self.count_items is not None
        return self.count_items()

    @cached_property
    def tokens(self) -> Small:
        """The tokens of the chunk at each place; counted where a metric asks for it."""
        assert self.count_tokens is not None
        return self.count_tokens()

    @cached_property
    def cosines(self) -> Floats:
        """The cosine of the chunk at each place; read where a metric asks for it."""
        assert self.read_cosines is not None
        return self.read_cosines()

    @cached_property
    def judged(self) -> Small:
        """1 where the chunk at a place is judged; read where a metric asks for it."""
        assert self.read_judged is not None
        return self.read_judged()


Prefixes = Callable[[RelevanceArrays], Floats]
"""A metric of every beginning of every list: shape (lists, longest + 1), column n of the first n chunks."""
