"""Deciding with some of the verdicts: 336 real cells, a simulated judge, 300 draws of the queries it sees.

python benchmarks/verdicts.py --data DIR [--draws 300] [--rounds 300] [--alone 100] [--processes 2]
                              [--queries 225] [--only JUDGE]

DIR holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt. Six retrievals, eight top_k, seven thresholds; F1 by
verdicts (how many chunks are relevant in all is taken from the labels). The judge says what the labels say with a
probability of 0.97, 0.93 or 0.88, each verdict apart; then 0.97 and besides a quarter of what keyword search alone
finds is relevant to it; and last the labels are replaced by some drawn at random. Verdicts and queries are drawn anew.

Shown by the number of judged queries: how often the chosen cell is worse than the best (by all verdicts) by more than
0.02, when chosen by the judged queries alone, by means corrected by the labels, and by these shrunk; the ratio of the
last two to the first. Then λ, the share of corrected intervals that hold the mean of all that users may ask (of the
best cell by labels; there the golden queries are drawn from Cranfield's with replacement), and their width over that of
judging alone. Bounds: at 10% of the queries at most 4% for agreement of 0.93 and better; nowhere more than alone.

The second table is of judging in rounds until the choice is proved within 0.03: by the judge alone, and corrected by
the labels. F1, then average precision by verdicts, as `ragas/llm_context_precision` is. Shown: the mean share of
verdicts bought by then, and its ratio to that of the first line; how often what was said at the end, and at every look,
is true; how often the chosen cell is worse than the best by more than 0.02; how far the chosen cell's reported mean is
off on average, with its standard error. Last, a few cells that return nearly the same, within 0.01.
Bounds: true in 95%.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import cranfield

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
SHARES, MARGIN, RELEVANT = (0.1, 0.2, 0.4), 0.02, 0.1
PROVED, CLOSE, GROWTH = 0.03, 0.01, 0.15
# By the judge alone, and corrected by the labels.
VARIANTS = ("alone", "corrected")
# Cells that return nearly the same, by (retrieval, threshold, top_k), each by its place.
ALIKE: Mapping[str, Sequence[int]] = {
    name: [56 * retrieval + 8 * threshold + cut for retrieval in retrievals for threshold in thresholds for cut in cuts]
    for name, retrievals, thresholds, cuts in (
        ("hybrid, top_k 3, 5, 8", (2,), (0,), (2, 3, 4)),
        ("hybrid, top_k 8, 10, 15", (2,), (0,), (4, 5, 6)),
        ("hybrid, 4 thresholds", (2,), (1, 2, 3, 4), (5,)),
        ("semantic, 3 thresholds", (0,), (1, 2, 3), (5,)),
        ("both, top_k 5, 8", (0, 2), (1,), (3, 4)),
        ("hybrid, 12 cells", (2,), (0, 2, 3, 4), (2, 3, 4)),
    )
}
_world_of_process: list["World"] = []
TOP_KS, THRESHOLDS = (1, 2, 3, 5, 8, 10, 15, 20), (0.0, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A judge: the probability that a verdict is the label, and of taking what keyword search alone finds as relevant.

    Attributes:
        useless: True where the labels are drawn at random instead.
    """

    agreement: float
    favours: float = 0.0
    useless: bool = False


JUDGES: Mapping[str, Simulated] = {
    "agrees 0.97": Simulated(agreement=0.97),
    "agrees 0.93": Simulated(agreement=0.93),
    "agrees 0.88": Simulated(agreement=0.88),
    "0.97, favours keyword": Simulated(agreement=0.97, favours=0.25),
    "useless labels": Simulated(agreement=0.97, useless=True),
}
# Metrics of the second table, with their judges.
METRICS: Mapping[str, Sequence[str]] = {"F1": tuple(JUDGES), "precision": ("agrees 0.93", "useless labels")}


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """What the cells return of every query, and what the labels say of it.

    Attributes:
        returned: [queries, cells, pool], whether a cell returns a chunk; the pool of a query is what any cell returns.
        labels: [queries, pool].
        relevant: [queries], relevant chunks in the whole collection.
        pooled: [queries, pool], False beyond the end of a pool.
        keyword_alone: [queries, pool], what keyword search finds and semantic search does not, at the largest cut.
        ranked: [queries, cells, largest cut], places in the pool of what a cell returns in rank order, −1 beyond.
    """

    returned: NDArray[np.float32]
    labels: Bools
    relevant: Floats
    pooled: Bools
    keyword_alone: Bools
    ranked: NDArray[np.int64]

    def verdicts(self, judge: Simulated, rng: np.random.Generator) -> tuple[Bools, Bools]:
        """Verdicts, and what passes for labels; [queries, pool]."""
        shape = self.labels.shape
        verdicts = self.labels ^ (rng.random(shape) >= judge.agreement)
        verdicts |= self.keyword_alone & (rng.random(shape) < judge.favours)
        labels = rng.random(shape) < RELEVANT if judge.useless else self.labels
        return verdicts & self.pooled, labels & self.pooled

    def judged(self, judge: Simulated, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """F1 by the judge, and by what passes for labels; [queries, cells]."""
        verdicts, labels = self.verdicts(judge, rng)
        return self.f1(verdicts), self.f1(labels)

    def of(self, rows: NDArray[np.int64], cells: Sequence[int]) -> "World":
        """Some queries in some cells."""
        return World(
            returned=self.returned[rows][:, list(cells)],
            labels=self.labels[rows],
            relevant=self.relevant[rows],
            pooled=self.pooled[rows],
            keyword_alone=self.keyword_alone[rows],
            ranked=self.ranked[rows][:, list(cells)],
        )

    def f1(self, verdicts: Bools) -> Floats:
        """F1 [queries, cells] by verdicts; how many chunks are relevant in all is taken from the labels."""
        hits = (self.returned @ verdicts[:, :, None].astype(np.float32))[:, :, 0]
        scores: Floats = np.minimum(1.0, 2.0 * hits / (self.returned.sum(axis=2) + self.relevant[:, None]))
        return scores

    def precision(self, verdicts: Bools) -> Floats:
        """Average precision [queries, cells] by verdicts, as `ragas/llm_context_precision`."""
        useful = np.take_along_axis(verdicts[:, None], np.maximum(self.ranked, 0), axis=2) & (self.ranked >= 0)
        hits = np.cumsum(useful, axis=2)
        scores: Floats = (useful * hits / np.arange(1, useful.shape[2] + 1)).sum(axis=2) / (hits[:, :, -1] + 1e-10)
        return scores


def main() -> None:
    """Retrieve once, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--queries", type=int, default=225, help="the first of them")
    parser.add_argument("--rounds", type=int, default=300, help="draws of the second table")
    parser.add_argument("--alone", type=int, default=100, help="draws of its lines by the judge alone, at most")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=list(JUDGES))
    options = parser.parse_args()
    judges = {options.only: JUDGES[options.only]} if options.only else JUDGES
    with tempfile.TemporaryDirectory() as folder:
        world = read(options.data, Path(folder), options.queries)
    print(
        f"\n{world.returned.shape[0]} queries, {world.returned.shape[1]} cells, {world.pooled.sum():,} verdicts in all"
    )
    print(f"\n{'judge':<22} {'judged':>6}  worse by over {MARGIN}: alone, corrected, shrunk (ratios)   λ  held  width")
    for name, judge in judges.items():
        for n in (max(4, round(share * options.queries)) for share in SHARES):
            uniform(name, judge, world, n, options.draws)
    print(
        f"\n{'proved within':<44} {'':<10} {'draws':>5}  verdicts (ratio)  true  at all looks  over {MARGIN}  mean off"
    )
    for metric, of_judges in METRICS.items():
        for name in (name for name in judges if name in of_judges):
            lines(f"{metric}, {PROVED}, {name}", metric, judges[name], world, PROVED, VARIANTS, options)
    for metric in METRICS:
        for name, cells in ALIKE.items():
            near, judge = world.of(np.arange(len(world.labels)), cells), JUDGES["agrees 0.93"]
            lines(f"{metric}, {CLOSE}, {name}", metric, judge, near, CLOSE, VARIANTS[1:], options)


def lines(
    name: str,
    metric: str,
    judge: Simulated,
    world: World,
    margin: float,
    variants: Sequence[str],
    options: argparse.Namespace,
) -> None:
    """The lines of one judge in the table of rounds, by several processes."""
    first = None
    with ProcessPoolExecutor(options.processes, initializer=_set_world, initargs=(world,)) as pool:
        for variant in variants:
            draws = min(options.rounds, options.alone) if variant == "alone" else options.rounds
            task = partial(_rounds, variant, metric, judge, margin)
            ends = np.array(list(pool.map(task, range(draws), chunksize=5)))
            share, true, always, worse, off = ends.mean(axis=0)
            error = ends[:, -1].std(ddof=1) / np.sqrt(draws)
            first = first or share
            print(f"{name:<44} {variant:<10} {draws:>5}  {share:>8.3f} ({share / first:.2f})  {true:.3f}  "
                  f"{always:>12.3f}  {worse:.3f}       {off:+.4f} ± {error:.4f}", flush=True)  # fmt: skip


def _set_world(world: World) -> None:
    _world_of_process.append(world)


def _rounds(
    variant: str, metric: str, judge: Simulated, margin: float, seed: int
) -> tuple[float, bool, bool, bool, float]:
    return rounds(variant, metric, judge, _world_of_process[0], margin, seed)


def uniform(name: str, judge: Simulated, world: World, n: int, draws: int) -> None:
    """One line of the table of queries drawn at random."""
    from evals.stats.corrected_mean import corrected_means
    from evals.stats.shrunk_means import shrunk_means

    returned, worse, weights = world.returned.sum(axis=2).mean(axis=0), [], []
    for seed in range(draws):
        rng = np.random.default_rng([n, seed])
        judged, proxy = world.judged(judge, rng)
        sampled = drawn(len(judged), n, rng)
        corrected, weight = corrected_means(judged, proxy, sampled)
        shrunk, truth = shrunk_means(judged, proxy, sampled, returned), judged.mean(axis=0)
        chosen = [scores.argmax() for scores in (judged[sampled].mean(axis=0), corrected, shrunk)]
        worse.append(truth.max() - truth[chosen] > MARGIN)
        weights.append(weight)
    alone, corrected_share, shrunk_share = np.mean(worse, axis=0)
    held, width = coverage(judge, world, n, draws)
    ratios = [f"{share / alone:.2f}" if alone else "-" for share in (corrected_share, shrunk_share)]
    print(f"{name:<22} {n:>6}  {alone:>20.3f} {corrected_share:>9.3f} {shrunk_share:>9.3f} ({', '.join(ratios)})  "
          f"{np.mean(weights):.2f}  {held:.3f}  {width:.2f}", flush=True)  # fmt: skip


def rounds(
    variant: str, metric: str, judge: Simulated, world: World, margin: float, seed: int
) -> tuple[float, bool, bool, bool, float]:
    """Judge until proved: share of verdicts, whether the last and every statement was true, and a loss over 0.02.

    Last, by how much the chosen cell's corrected mean is off.
    """
    from evals.stats.corrected_mean import corrected_means
    from evals.stats.proved_choice import FIRST, Rounds, look
    from evals.stats.returned_chunks import Returned

    rng = np.random.default_rng(seed)
    verdicts, labels = world.verdicts(judge, rng)
    score = {"F1": World.f1, "precision": World.precision}[metric]
    order = rng.permutation(len(labels))
    scores, proxy = score(world, verdicts)[order], score(world, labels)[order]
    proxy = np.full_like(proxy, 0.5) if variant == "alone" else proxy
    returned, truth = Returned(chunks=world.returned[order] > 0, pools=()), scores.mean(axis=0)
    queries, cells = scores.shape
    state = Rounds(total=queries, judged=min(FIRST, queries), remaining=tuple(range(cells)))
    seen, bought = np.full_like(scores, np.nan), np.zeros_like(world.pooled)
    statements, done = list[bool](), 0
    while True:
        rows, remaining = np.arange(done, state.judged), np.array(state.remaining)
        bought[rows] = returned.chunks[np.ix_(rows, remaining)].any(axis=1)
        seen[np.ix_(rows, remaining)] = scores[np.ix_(rows, remaining)]
        done = state.judged
        state, proof = look(state, seen, proxy, returned, margin=margin, seed=seed)
        loss = float(truth.max() - truth[proof.chosen])
        statements.append(loss <= proof.bound + 1e-9)
        decides = returned.of(np.array(state.remaining)).decides[done:].any()
        if proof.bound <= margin or not decides:
            column, sampled = [proof.chosen], np.arange(queries) < done
            off = float(corrected_means(scores[:, column], proxy[:, column], sampled)[0][0]) - truth[proof.chosen]
            share = float(bought.sum() / returned.needed.sum())
            return share, statements[-1], all(statements), loss > MARGIN, off
        state = replace(state, judged=min(queries, done + max(1, round(GROWTH * done))))


def coverage(judge: Simulated, world: World, n: int, draws: int) -> tuple[float, float]:
    """Share of corrected intervals that hold the truth, and their mean width over that of judging alone."""
    from evals.stats.corrected_mean import corrected_mean

    cell = int(world.f1(world.labels).mean(axis=0).argmax())
    rows = np.arange(len(world.labels))
    best = world.of(rows, [cell])
    truth = np.mean([best.judged(judge, np.random.default_rng(seed))[0].mean() for seed in range(draws)])
    held, widths = [], []
    for seed in range(draws):
        rng = np.random.default_rng([n, seed, 1])
        judged, proxy = world.of(rng.choice(rows, len(rows)), [cell]).judged(judge, rng)
        found = corrected_mean(judged[:, 0], proxy[:, 0], drawn(len(judged), n, rng))
        own, alone = found.interval, found.alone_interval
        if own.low is not None and own.high is not None and alone.low is not None and alone.high is not None:
            held.append(own.low <= truth <= own.high)
            widths.append((own.high - own.low) / (alone.high - alone.low))
    return (float(np.mean(held)), float(np.mean(widths))) if held else (np.nan, np.nan)


def drawn(queries: int, n: int, rng: np.random.Generator) -> Bools:
    """Queries drawn at random."""
    sampled = np.zeros(queries, dtype=np.bool_)
    sampled[rng.permutation(queries)[:n]] = True
    return sampled


def read(data: Path, folder: Path, queries: int) -> World:
    """Retrieve in six ways and cut."""
    from evals.collect.observations import Observation, Observed
    from evals.golden.evidence import Relevance
    from evals.grid.selections import Found, select_all

    cases = cranfield.read_cases(data)[:queries]
    config = cranfield.index(folder / "store", cranfield.read_chunks(data / "cran.all.1400.xml"))
    grades = [{chunk: grade for chunk, grade in case.relevant_ids.items() if grade > 0} for case in cases]
    relevance = [Relevance(grades=known, items=tuple(frozenset([key]) for key in known)) for known in grades]
    kept: list[list[list[str]]] = [[] for _ in cases]
    for settings in cranfield.CONTENDERS.values():
        with cranfield.opened(config, settings) as retriever:
            candidates = retriever.candidates([case.query for case in cases], use_cache=False)
        observed = Observed(observations=tuple(
            Observation(case=case, relevance=known, candidates=one, selection=one)
            for case, known, one in zip(cases, relevance, candidates, strict=True)
        ))  # fmt: skip
        table = observed.table
        selections = select_all(Found(scores=table.matrix(table.column("semantic"), -np.inf)), THRESHOLDS, TOP_KS)
        for cell in range(selections.cells):
            for row, number in enumerate(selections.of_cell(cell).tolist()):
                kept[row].append([candidates[row][place].chunk.chunk_id for place in selections.places(number)])
    return _world(kept, grades)


def _world(kept: Sequence[Sequence[Sequence[str]]], grades: Sequence[Any]) -> World:
    pools = [sorted({chunk for cell in cells for chunk in cell}) for cells in kept]
    shape = len(kept), len(kept[0]), max(map(len, pools))
    returned = np.zeros(shape, dtype=np.float32)
    labels, pooled = np.zeros(shape[::2], dtype=np.bool_), np.zeros(shape[::2], dtype=np.bool_)
    ranked = np.full((*shape[:2], max(TOP_KS)), -1)
    for row, (cells, pool) in enumerate(zip(kept, pools, strict=True)):
        place = {chunk: index for index, chunk in enumerate(pool)}
        pooled[row, : len(pool)] = True
        labels[row, : len(pool)] = [chunk in grades[row] for chunk in pool]
        for column, cell in enumerate(cells):
            ranked[row, column, : len(cell)] = [place[chunk] for chunk in cell]
            returned[row, column, ranked[row, column, : len(cell)]] = 1
    each, relevant = len(TOP_KS) * len(THRESHOLDS), np.array([len(known) for known in grades], dtype=float)
    keyword = (returned[:, each : 2 * each].max(axis=1) > 0) & (returned[:, :each].max(axis=1) == 0)
    return World(
        returned=returned, labels=labels, pooled=pooled, relevant=relevant, keyword_alone=keyword, ranked=ranked
    )


if __name__ == "__main__":
    main()
