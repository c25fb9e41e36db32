"""Which chunks the cells return, as arrays: what a query costs in verdicts, and how much cells differ on it. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.stats.corrected_mean import Bools, Floats

Places = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Returned:
    """Chunks that each cell returns of each query. The pool of a query holds what any cell returns.

    Attributes:
        chunks: [N, cells, widest pool], True where a cell returns a chunk; False beyond the end of a pool.
        pools: The ids of each query's pool, in the order of the last axis.
    """

    chunks: Bools
    pools: tuple[tuple[str, ...], ...]

    def of(self, cells: Places) -> "Returned":
        """Some of the cells; pools stay."""
        return Returned(chunks=self.chunks[:, cells], pools=self.pools)

    @property
    def needed(self) -> Bools:
        """[N, pool], what any cell returns: the verdicts that judging a query takes."""
        needed: Bools = np.logical_or.reduce(self.chunks, axis=1)
        return needed

    @property
    def sizes(self) -> NDArray[np.int64]:
        """[N, cells], number of returned chunks."""
        sizes: NDArray[np.int64] = np.add.reduce(self.chunks, axis=2, dtype=np.int64)
        return sizes

    @property
    def decides(self) -> Bools:
        """[N], whether any two cells return different chunks; elsewhere their scores are the same."""
        differs: Bools = (self.chunks != self.chunks[:, :1]).any(axis=(1, 2))
        return differs

    def differing(self, cell: int) -> Floats:
        """[N], the mean over cells of the share of chunks in which they differ from one: differing / the larger set."""
        apart = (self.chunks != self.chunks[:, [cell]]).sum(axis=2)
        larger = np.maximum(1, np.maximum(self.sizes, self.sizes[:, [cell]]))
        share: Floats = (apart / larger).mean(axis=1)
        return share

    def likeness(self, rows: Places) -> Floats:
        """[cells, cells], the covariance of means would each verdict of these queries be wrong by chance.

        A verdict counts 1 / the number of returned chunks. Cells that return the same are alike, those that differ in
        much are apart.
        """
        loads = (self.chunks[rows] / np.maximum(1, self.sizes[rows])[:, :, None]).astype(np.float32)
        flat = loads.transpose(1, 0, 2).reshape(self.chunks.shape[1], -1)
        alike: Floats = (flat @ flat.T).astype(float)
        return alike


def pool(selections: Sequence[Sequence[Collection[str]]]) -> Returned:
    """Arrange the ids that cells return, query by query.

    Args:
        selections: Of every query, of every cell, the ids of the returned chunks.
    """
    pools = tuple(tuple(sorted({chunk for cell in cells for chunk in cell})) for cells in selections)
    shape = len(pools), len(selections[0]), max(map(len, pools))
    chunks = np.zeros(shape, dtype=np.bool_)
    for row, (cells, ids) in enumerate(zip(selections, pools, strict=True)):
        place = {chunk: index for index, chunk in enumerate(ids)}
        for column, cell in enumerate(cells):
            chunks[row, column, [place[chunk] for chunk in cell]] = True
    return Returned(chunks=chunks, pools=pools)
