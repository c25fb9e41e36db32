"""Populations of differences between two runs: sizes of those that are not ties, with their true mean."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sizes = Callable[[np.random.Generator, tuple[int, int]], Floats]
Population = tuple[Sizes, float]
"""What draws [n, samples] differences within [-1, 1], none of them a tie, and their mean."""


def beta(a: float, b: float, rising: float) -> Population:
    """Return sizes of Beta(a, b), of which that share are rises."""
    mean = (2 * rising - 1) * a / (a + b)
    return lambda rng, shape: rng.beta(a, b, shape) * np.where(rng.random(shape) < rising, 1, -1), mean


def valued(values: Mapping[float, float]) -> Population:
    known, chances = np.array(list(values)), np.array(list(values.values()))
    return lambda rng, shape: rng.choice(known, size=shape, p=chances), float(known @ chances)


def tied(sizes: Sizes, share: float, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return samples in which every difference is a tie with that probability."""
    return np.where(rng.random(shape) < share, 0.0, sizes(rng, shape))


POPULATIONS: Mapping[str, Population] = {
    "uniform": beta(1, 1, 0.5),
    "uniform, rises": beta(1, 1, 1),
    "mostly small": beta(0.3, 1, 0.5),
    "mostly small, 80% rises": beta(0.3, 1, 0.8),
    "mostly small, rises": beta(0.3, 1, 1),
    "mostly large, rises": beta(5, 1, 1),
    "halves": valued({-0.5: 0.5, 0.5: 0.5}),
    "halves, rises": valued({0.5: 1.0}),
    "tenths, rises": valued({0.1: 1.0}),
    "small gains, rare losses": valued({0.1: 0.9, -0.9: 0.1}),
    "smaller gains, rarer losses": valued({0.03: 0.97, -0.97: 0.03}),
    "laplace": (lambda rng, shape: np.clip(rng.laplace(0, 0.1, shape), -1, 1), 0.0),
    "hits": valued({-1.0: 0.5, 1.0: 0.5}),
    "hits, rises": valued({1.0: 1.0}),
}
"""The means are 0 or not, differences go both ways or one. Those named hits are between scores of 0 and 1."""
