"""Populations of queries with known means, what the project says of a draw of them, and limits on how often it holds.

A population has the score of every query in every cell twice: by a judge, and by labels that agree with it in part.
Chunks are shared: cells that return the same chunk of a query share the verdict on it, right or wrong.

DRAWS=1 takes all draws that the docs name, as the nightly run does; without it one in 200. CRANFIELD=DIR names the
folder of the Cranfield collection (cran.all.1400.xml, cran.qry.xml, cranqrel.trec.txt).
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, norm

from evals.grid.cells import Grid
from evals.stats.intervals import Interval

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Scorer = Callable[[Bools], Floats]
Pair = tuple[float, float]
QUERIES = 20_000
PRESETS = Path(__file__).parents[2] / "evals" / "config" / "presets"
DATA = os.environ.get("CRANFIELD", "")
needs_cranfield = pytest.mark.skipif(not DATA, reason="CRANFIELD names no folder with the Cranfield collection")
agreements = pytest.mark.parametrize("agreement", [0.97, 0.93, 0.80])


def draws(whole: int) -> int:
    return round(whole * float(os.environ.get("DRAWS", "0.005")))


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Scores within 0 and 1 of all queries in all cells, by the judge and by labels, [queries, cells].

    On those `out_of_scope` the score tells how wrong a result is: `wrong` times their mean counts against a cell.
    """

    judged: Floats
    proxy: Floats
    cost: Floats
    threshold: Floats
    out_of_scope: Bools | None = None
    wrong: float = 0.5

    @cached_property
    def truth(self) -> Floats:
        """What every cell is worth: its mean over the population, of two scopes the weighted sum of their means."""
        if self.out_of_scope is None:
            return np.asarray(self.judged.mean(axis=0))
        wrong = self.judged[self.out_of_scope].mean(axis=0)
        return np.asarray(self.judged[~self.out_of_scope].mean(axis=0) - self.wrong * wrong)

    @cached_property
    def best(self) -> Bools:
        return np.asarray(self.truth >= self.truth.max() - 1e-12)

    def alone(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Floats | None]:
        """Return which of some queries a judge scores, and what the others add to each one's value, these last."""
        if self.out_of_scope is None:
            return rows, None
        out = self.out_of_scope[rows]
        added = np.zeros((len(rows), len(self.cost)))
        added[(~out).sum() :] = -self.wrong * len(rows) / max(1, out.sum()) * self.judged[rows[out]]
        return rows[~out], added

    def draw(self, n: int, seed: int) -> NDArray[np.intp]:
        return np.random.default_rng([n, seed]).integers(0, len(self.judged), n)


class Counts:
    """Estimates of a test: all are printed; `wrong` are those that one-sided 99% limits say to be not as is said."""

    def __init__(self, setting: str) -> None:
        self.setting, self.wrong = setting, list[str]()

    def at_least(self, what: str, count: int, of: int, share: float) -> None:
        upper = beta.ppf(0.99, count + 1, of - count) if count < of else 1.0
        self._say(f"{what}: {count}/{of} = {count / of:.4f}, at most {upper:.4f}; ≥ {share} is said", upper >= share)

    def at_most(self, what: str, count: int, of: int, share: float) -> None:
        lower = beta.ppf(0.01, count, of - count + 1) if count else 0.0
        self._say(f"{what}: {count}/{of} = {count / of:.4f}, at least {lower:.4f}; ≤ {share} is said", lower <= share)

    def never(self, what: str, count: int) -> None:
        self._say(f"{what}: {count}; never is said", count == 0)

    def told(self, what: str, figure: float) -> None:
        self._say(f"{what}: {figure:.4f}", True)

    def _say(self, text: str, holds: bool) -> None:
        print(f"{' ' if holds else '!'} {self.setting}: {text}")  # noqa: T201
        if not holds:
            self.wrong.append(text)


# Formulas of a ranking, by the length of the prefix that a cell returns: [..., depth] flags to [..., depth + 1] scores.


def average_precision(useful: Bools) -> Floats:
    found = np.cumsum(useful, axis=-1)
    summed = np.cumsum(useful * found / np.arange(1, useful.shape[-1] + 1), axis=-1)
    return _from_nothing(summed / np.maximum(found, 1))


def hit(useful: Bools) -> Floats:
    return _from_nothing(np.maximum.accumulate(useful, axis=-1).astype(float))


def _from_nothing(scores: Floats) -> Floats:
    return np.concatenate([np.zeros((*scores.shape[:-1], 1)), scores], axis=-1)


def _world(
    scorer: Scorer, ranked: Floats, told: tuple[Bools, Bools], cuts: Floats, top_ks: tuple[int, ...], depth: int = 10
) -> World:
    """A population of the cells variants × thresholds × top_ks.

    `ranked` has similarities [queries, variants, chunks]; `told`, by judge and labels, whether a chunk is useful
    [queries, chunks]; `cuts` are the thresholds, [variants, thresholds] where variants differ.
    """
    places = np.argsort(-ranked, axis=2)[:, :, :depth]
    kept = (np.take_along_axis(ranked, places, axis=2)[:, :, :, None] >= cuts[..., None, :]).sum(axis=2)
    lengths = np.minimum(kept[..., None], np.array(top_ks))
    shape = len(ranked), ranked.shape[1], -1
    judged, proxy = (
        np.take_along_axis(
            scorer(np.take_along_axis(useful[:, None, :], places, axis=2)), lengths.reshape(shape), axis=2
        ).reshape(len(ranked), -1)
        for useful in told
    )
    threshold = np.broadcast_to(np.arange(float(kept.shape[2]))[:, None], lengths.shape[1:]).ravel()
    dearer = np.arange(ranked.shape[1])[:, None, None] / 100
    return World(
        judged=judged,
        proxy=proxy,
        cost=(lengths.mean(axis=0) + dearer).ravel(),
        threshold=np.ascontiguousarray(threshold),
    )


@cache
def chunks(scorer: Scorer, agreement: float) -> World:
    """48 cells: two retrievers that rank the same 14 chunks of a query alike, six values of top_k, four thresholds.

    Queries are of two kinds, easy and hopeless, so that scores pile up at 0 and 1.
    """
    rng = np.random.default_rng(3)
    worth = rng.gamma(0.7, 1.0, (QUERIES, 14)) + 0.8 * rng.standard_normal((QUERIES, 14))
    easy = rng.random((QUERIES, 1)) < 0.7
    labels = (worth > np.where(easy, 1.1, 2.6)) & (rng.random(worth.shape) < 0.9)
    similar = worth[:, None, :] + np.array([0.45, 0.55])[:, None] * rng.standard_normal((QUERIES, 2, 14))
    verdicts = labels ^ (rng.random(labels.shape) >= agreement)
    return _world(scorer, similar, (verdicts, labels), np.array([-9, 0.0, 0.5, 1.0]), (1, 2, 3, 4, 6, 10))


@cache
def rare_losses(agreement: float, *, cells: int = 24, loss: float = 0.02, gain: float = 0.06) -> World:
    """Cells that score the same on three quarters of the queries; else small gains, and on few everything is lost.

    The first cell is the best: it gains a third of what the others gain, and loses nothing. The second scores 0 on
    the share `loss` of the queries, the last on twice as many. Where labels and judge disagree on a result, labels tell
    its score on another query.
    """
    rng = np.random.default_rng(4)
    base = np.round(0.1 + 0.9 * rng.beta(1.2, 0.8, (QUERIES, 1)), 1)
    differs = rng.random((QUERIES, 1)) < 0.25
    gained = gain * rng.uniform(0.7, 1.3, cells) * (rng.random((QUERIES, cells)) < 0.9)
    lost = rng.random((QUERIES, cells)) < np.linspace(loss, 2 * loss, cells)
    gained[:, 0], lost[:, 0] = gain / 3, False
    judged = np.where(lost, 0.0, np.where(differs, np.minimum(1.0, base + gained), base))
    of_another = rng.permutation(judged)
    by_query = rng.random((QUERIES, 1)) >= agreement
    by_result = rng.random((QUERIES, cells)) >= agreement
    proxy = np.where(np.where(differs, by_result, by_query), of_another, judged)
    return World(judged=judged, proxy=proxy, cost=np.arange(cells, 0.0, -1.0), threshold=np.zeros(cells))


@cache
def rare_wins(agreement: float) -> World:
    """Two cells: the first scores 1 on 7% of the queries and the other 0; else a little less. Labels know no win."""
    rng = np.random.default_rng(6)
    usual = rng.uniform(0.03, 0.07, (QUERIES, 1)) + np.array([0.0, 0.01])
    proxy = np.where(rng.random((QUERIES, 1)) < agreement, usual, 0.0)
    judged = np.where(rng.random((QUERIES, 1)) < 0.07, [1.0, 0.0], usual)
    return World(judged=judged, proxy=proxy, cost=np.array([2.0, 1.0]), threshold=np.zeros(2))


@cache
def never_equal(agreement: float) -> World:
    """Four cells of skewed scores; the proxy's come close and never equal them, as those of a cheap judge may."""
    rng = np.random.default_rng(8)
    told = 0.8 * rng.standard_normal((QUERIES, 1)) + 0.6 * rng.standard_normal((QUERIES, 4))
    guess = agreement * told + np.sqrt(1 - agreement**2) * rng.standard_normal(told.shape)
    judged, proxy = (norm.cdf(scores) ** [0.3, 0.5, 1.0, 2.0] for scores in (told, guess))
    return World(judged=judged, proxy=proxy, cost=np.arange(4.0), threshold=np.zeros(4))


@cache
def scoped(agreement: float) -> World:
    """30 cells of hits, a fifth of the queries out of scope: a strict threshold answers less of what it should not."""
    rng = np.random.default_rng(5)
    out = rng.random((QUERIES, 1)) < 0.2
    useful = out | (rng.random((QUERIES, 8)) < 0.45 * np.exp(-0.25 * np.arange(8)))
    similar = rng.normal(np.where(out, 0.35, 0.6), 0.15) - 0.02 * np.arange(8)
    cuts = np.array([0.0, 0.3, 0.4, 0.5, 0.6, 0.7])
    labels = useful ^ (rng.random(useful.shape) >= agreement)
    world = _world(hit, similar[:, None, :], (useful, labels), cuts, (1, 2, 3, 5, 8), depth=8)
    return replace(world, out_of_scope=out[:, 0])


def handbook_grid(mode: list[str], threshold: str, *names: str) -> tuple[Grid, list[Floats]]:
    """Return a grid of the handbook's 176 queries, top_k 1 to 20, and metrics' scores [queries in scope, cells]."""
    from evals import Experiment, sweep
    from evals.metrics import metric_named
    from evals.metrics.declaration import Context, QueryMetric

    axes = {"mode": mode, "top_k": "1:20", "threshold": threshold}
    changes: dict[str, object] = {"dataset.split": None, "baseline": None, "metrics": ["scope/*"], "criteria": {}}
    swept = sweep(Experiment.load(PRESETS / "default.yaml", {"sweep": axes, **changes})).result.swept
    assert swept is not None
    context = Context(required=(), sources=None, relevant_texts=None, seed=0)
    metrics = [metric for name in names if isinstance(metric := metric_named(name), QueryMetric)]
    cases = swept.grid.pool.cases
    inside = [[case.is_of(metric.scope) for case in cases] for metric in metrics]
    return swept.grid, [swept.grid.matrix(m, context)[rows] for m, rows in zip(metrics, inside, strict=True)]


@cache
def handbook(_: float) -> World:
    """The handbook in 520 cells: nDCG in scope, answered or not out of scope; utility of weight 0.2."""
    names = "ranking/ndcg_at_10", "scope/false_answer"
    grid, (inside, outside) = handbook_grid(["semantic", "hybrid"], "0:0.6:0.05", *names)
    out = np.array([not case.in_scope for case in grid.pool.cases])
    values = np.empty((len(out), len(grid)))
    values[~out], values[out] = inside, outside
    return World(
        judged=values,
        proxy=values,
        cost=grid.metrics["cost/context_tokens"].mean,
        threshold=np.array([cell.threshold or 0.0 for cell in [*map(grid.cell, range(len(grid)))]]),
        out_of_scope=out,
        wrong=0.2 / 0.8,
    )


@cache
def cranfield(scorer: Scorer, agreement: float) -> World:
    """144 cells over Cranfield's 225 queries: three kinds of TF-IDF, latent semantics × 6 top_k × 6 thresholds."""
    similar, labels = cranfield_search()
    highest = -np.sort(-similar, axis=2)[:, :, :10]
    cuts = np.quantile(highest, [0, 0.05, 0.15, 0.3, 0.5, 0.7], axis=(0, 2)).T
    verdicts = labels ^ (np.random.default_rng(6).random(labels.shape) >= agreement)
    return _world(scorer, similar, (verdicts, labels), cuts, (1, 2, 3, 5, 7, 10))


@cache
def cranfield_with_strangers(agreement: float) -> World:
    """The 144 cells over Cranfield; a quarter of the queries lose their relevant documents, and are out of scope."""
    similar, labels = cranfield_search()
    rng = np.random.default_rng(7)
    out = rng.random(len(labels)) < 0.25
    similar = np.where(out[:, None, None] & labels[:, None, :], -1.0, similar)
    cuts = np.quantile(-np.sort(-similar, axis=2)[:, :, :10], [0, 0.05, 0.15, 0.3, 0.5, 0.7], axis=(0, 2)).T
    labels = labels | out[:, None]  # whatever is returned is one wrong answer
    verdicts = labels ^ ((rng.random(labels.shape) >= agreement) & ~out[:, None])
    world = _world(average_precision, similar, (verdicts, labels), cuts, (1, 2, 3, 5, 7, 10))
    return replace(world, out_of_scope=out, wrong=0.2 / 0.8)


@cache
def cranfield_search() -> tuple[Floats, Bools]:
    """Similarities [queries, 4, documents] and labels [queries, documents]; queries are numbered in file order."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    folder = Path(DATA)
    documents, queries = (
        re.findall(f"<{tag}>(.*?)</{tag}>", (folder / name).read_text(encoding="utf-8"), re.DOTALL)
        for name, tag in (("cran.all.1400.xml", "text"), ("cran.qry.xml", "title"))
    )
    similar = []
    for kind in {"use_idf": False}, {"ngram_range": (1, 2)}, {"sublinear_tf": True, "stop_words": "english"}:
        words = TfidfVectorizer(**kind).fit(documents)
        found, asked = words.transform(documents), words.transform(queries)
        similar.append((asked @ found.T).toarray())
    latent = TruncatedSVD(150, random_state=0).fit(found)
    similar.append(normalize(latent.transform(asked)) @ normalize(latent.transform(found)).T)
    labels = np.zeros((len(queries), len(documents)), dtype=np.bool_)
    for line in (folder / "cranqrel.trec.txt").read_text(encoding="utf-8").splitlines():
        query, _, document, grade = line.split()
        labels[int(query) - 1, int(document) - 1] = int(grade) > 0
    return np.stack(similar, axis=1), labels


WORLDS: dict[str, Callable[[float], World]] = {
    "average precision": partial(chunks, average_precision),
    "hits": partial(chunks, hit),
    "rare losses": rare_losses,
    "60 cells, rarer losses": partial(rare_losses, cells=60, loss=0.015, gain=0.02),
    "rare wins": rare_wins,
    "never equal": never_equal,
    "two scopes": scoped,
    "utility, handbook": handbook,
    "Cranfield": partial(cranfield, average_precision),
    "Cranfield, hits": partial(cranfield, hit),
    "utility, Cranfield": cranfield_with_strangers,
}
"""By the agreement of judge and labels."""


class Look(NamedTuple):
    """Said after n queries: by all verdicts on these queries the chosen cell is at most `within` below the best."""

    n: int
    chosen: int
    within: float


def judge(
    judged: Floats, proxy: Floats, *, margin: float, seed: int, alone: Floats | None = None
) -> tuple[list[Look], Bools]:
    """Judge queries in rounds: what each look says, and which cells may be the best for all users."""
    from evals.sampling.rounds import Unjudged, judge_in_rounds

    results = np.arange(proxy.size).reshape(proxy.shape)
    queries = Unjudged(proxy=proxy, results=results, alone=alone, span=1.0)
    looks = [
        *judge_in_rounds(
            lambda rows, cells: (judged[rows][:, cells], True), queries, margin=margin, most=len(proxy), seed=seed
        )
    ]
    return [
        Look(look.n, look.chosen, float(look.within[look.chosen])) for look in looks if look.chosen is not None
    ], looks[-1].users


def chosen(world: World, rows: NDArray[np.intp], *, margin: float, seed: int) -> tuple[Bools, Floats, int, bool]:
    """Choose by some queries: set of best cells, bounds on (cell − best), the one recommended, and whether proved."""
    from evals.grid.choice import Cells, choose, combine

    cells, values = len(world.cost), world.judged[rows]
    out = np.zeros((len(rows), 1), dtype=np.bool_) if world.out_of_scope is None else world.out_of_scope[rows, None]
    weights = {"found": 1.0, "false": -world.wrong} if out.any() else {"found": 1.0}
    scores = {"found": np.where(out, np.nan, values), "false": np.where(out, values, np.nan)}
    choice = choose(
        combine(weights, scores, [(0, 1)] * len(weights)),
        Cells(cost=world.cost, threshold=world.threshold, allowed=np.ones(cells, dtype=np.bool_)),
        margin=margin,
        seed=seed,
        proof=None,
    )
    members, lower = np.zeros(cells, dtype=np.bool_), np.zeros(cells)
    for standing in choice.standings:
        members[list(standing.members)] = standing.in_set
        lower[list(standing.members)] = standing.lower
    return members, lower, choice.recommended.cell, choice.recommended.is_within(margin)


def choices(world: World, setting: str, n: int, number: int, *, margin: float) -> Counts:
    """Choose by n queries so often; return how often what is said holds of the population."""
    counts = Counts(setting)
    behind = world.truth - world.truth.max()
    kept = failed = preferred = wrong = 0
    sizes = []
    for seed in range(number):
        members, lower, cell, is_proved = chosen(world, world.draw(n, seed), margin=margin, seed=seed)
        kept += bool((members & world.best).any())
        failed += bool((lower > behind + 1e-9).any())
        preferred += is_proved
        wrong += bool(is_proved and behind[cell] < -margin)
        sizes.append(members.mean())
    counts.at_least("the set keeps the best cell", kept, number, 0.95)
    counts.at_most("some cell's bound fails", failed, number, 0.05)
    counts.at_most("the cell proved within the margin is not", wrong, number, 0.05)
    counts.told("a cell is proved within the margin", preferred / number)
    counts.told("share of the cells in the set", float(np.mean(sizes)))
    return counts


def begun(scores: Floats, n: int) -> Floats:
    """Return scores as they are known once the first n queries are judged."""
    return np.where(np.arange(len(scores)) < n, scores, np.nan)


def ends(interval: Interval) -> Pair:
    return -np.inf if interval.low is None else interval.low, np.inf if interval.high is None else interval.high


def sign_flip(differences: Floats, seed: int) -> float:
    """P value of Fisher's randomisation: of all signs of at most 14 differences, else of 9,999 drawn."""
    moved = differences[differences != 0]
    if len(moved) <= 14:
        signs = np.array(list(product((1.0, -1.0), repeat=len(moved))))
        return float((np.abs(signs @ moved) >= abs(moved.sum()) - 1e-9).mean())
    signs = np.random.default_rng(seed).choice((1.0, -1.0), (9_999, len(moved)))
    return float((1 + (np.abs(signs @ moved) >= abs(moved.sum()) - 1e-9).sum()) / 10_000)


# Differences between two runs: sizes of those that are not ties, with their true mean.

Sizes = Callable[[np.random.Generator, tuple[int, int]], Floats]
Population = tuple[Sizes, float]
"""What draws [n, samples] differences within [-1, 1], none of them a tie, and their mean."""


def of_beta(a: float, b: float, rising: float) -> Population:
    """Return sizes of Beta(a, b), of which that share are rises."""
    mean = (2 * rising - 1) * a / (a + b)
    return lambda rng, shape: rng.beta(a, b, shape) * np.where(rng.random(shape) < rising, 1, -1), mean


def valued(values: Mapping[float, float]) -> Population:
    known, chances = np.array(list(values)), np.array(list(values.values()))
    return lambda rng, shape: rng.choice(known, size=shape, p=chances), float(known @ chances)


def tied(sizes: Sizes, share: float, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return samples in which every difference is a tie with that probability."""
    return np.where(rng.random(shape) < share, 0.0, sizes(rng, shape))


DIFFERENCES: Mapping[str, Population] = {
    "uniform": of_beta(1, 1, 0.5),
    "uniform, rises": of_beta(1, 1, 1),
    "mostly small": of_beta(0.3, 1, 0.5),
    "mostly small, 80% rises": of_beta(0.3, 1, 0.8),
    "mostly small, rises": of_beta(0.3, 1, 1),
    "mostly large, rises": of_beta(5, 1, 1),
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
