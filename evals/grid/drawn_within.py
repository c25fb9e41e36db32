"""Verdicts drawn within a query, in rounds of judging: which are asked for, and the scores that they give."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evals.collect.observations import Observation
from evals.grid.judge_questions import LARGEST, AskedQuestions, can_be_drawn, questions_of
from evals.grid.round_scores import Bools, Floats, Integers, RoundScores
from evals.judge.sampling import uniform
from evals.judge.tasks import JUDGED
from evals.judge.verdicts import ChunkVerdict, Judging, Selected
from evals.metrics.base import Metric
from evals.stats.corrected_mean import shrunk_weight
from evals.stats.drawn_verdicts import LEVELS, TRUSTED, Buying, buy, expected_scores, levels_bought
from evals.stats.proved_choice import Proof, Rounds, gaps

# Grids are too large for less than so many questions a query.
FEWEST = 10


class DrawnWithin:
    """What is bought of each drawn query, and what is left.

    Args:
        scores: Scores of the rounds.
        metrics: Metrics of the run.
        seed: Seed of the draws: with it and the same verdicts the same are drawn again.
        allowed: False to judge whole queries.

    Attributes:
        buying: What the last look favours; None where whole queries are judged.
        errors: [N, steps, cells], of the scores (`drawn_verdicts.expected_scores`).
        estimated: [N, cells], unbiased scores of queries of which not everything was sure to be bought; NaN elsewhere.
    """

    def __init__(self, scores: RoundScores, metrics: Mapping[str, Metric], seed: int, *, allowed: bool) -> None:
        shape = scores.proxy.shape
        self.buying: Buying | None = None
        self.errors = np.zeros((shape[0], len(LEVELS) - 1, shape[1]))
        self.estimated = np.full(shape, np.nan)
        self._scores, self._seed = scores, seed
        is_drawn = allowed and can_be_drawn(metrics)
        self._metric = next(name for name in metrics if name in JUDGED) if is_drawn else None
        self._levels = levels_bought(np.array([uniform(seed, "verdicts", key) for key in scores.case_ids]))
        self._asked: AskedQuestions | None = None
        self._cells: NDArray[np.intp] = np.arange(shape[1])
        self._left: dict[str, frozenset[Selected]] = {}

    @property
    def is_partial(self) -> bool:
        """True if something of a drawn query was not bought."""
        return bool(self._left)

    def plan(self, rounds: Rounds, proof: Proof, margin: float, first: Sequence[int], judging: Judging) -> None:
        """Choose what to buy next.

        Args:
            rounds: State after a look.
            proof: What it proved.
            margin: Wanted margin.
            first: Queries of the first round, of which everything was bought.
            judging: All verdicts so far.
        """
        self.buying = None
        cells = np.array(rounds.remaining)
        asked = self._questions(rounds) if proof.estimated.weight >= TRUSTED else None
        if asked is None or rounds.leading is None:
            return
        judged, proxy = self._scores.judged(rounds), self._scores.proxy
        rows = np.array(first)
        at = np.ix_(rows, cells)
        mask = np.zeros(proxy.shape[1], dtype=np.bool_)
        mask[cells] = True
        self.buying = buy(
            asked.questions,
            rounds.remaining.index(rounds.leading),
            gaps(rounds, proof),
            margin,
            rows,
            judged[at] - proof.estimated.weight * proxy[at],
            lambda chances: self._staged(rows, mask, judging, chances, rows),
        )

    def results(self, queries: Integers, cells: Bools, *, whole: bool) -> list[Observation]:
        """Return what to ask the judge about, once each: the results of drawn queries, or parts of them.

        Args:
            queries: Those drawn in this round.
            cells: The remaining ones.
            whole: True to buy all, also what earlier rounds left.
        """
        wanted: dict[str, AbstractSet[Selected]] = dict(self._left) if whole else self._wanted(queries)
        late = [row for row, key in enumerate(self._scores.case_ids) if whole and key in self._left]
        rows = np.unique(np.concatenate([queries, np.array(late, dtype=np.int64)]))
        parts = (self._part(result, wanted.get(result.case.id)) for result in self._scores.results(rows, cells))
        return [part for part in parts if part is not None]

    def left_of(self, cell: int) -> list[Observation]:
        """Return what was not bought of the results of a cell."""
        rows = [row for row, key in enumerate(self._scores.case_ids) if key in self._left]
        results = self._scores.results(np.array(rows, dtype=np.int64), np.arange(self._scores.proxy.shape[1]) == cell)
        parts = (self._part(result, self._left[result.case.id]) for result in results)
        return [part for part in parts if part is not None]

    def add(self, queries: Integers, cells: Bools, judging: Judging, first: Sequence[int], *, whole: bool) -> None:
        """Keep the scores that a round gives; with `whole` those of all drawn queries."""
        columns = np.flatnonzero(cells)
        at = np.ix_(queries, columns)
        if whole or self.buying is None:
            self._scores.add(queries, cells, self._scores.scored(queries, cells, judging))
            self.errors[queries[:, None], :, columns] = 0.0
            self.estimated[at] = np.nan
            self._left = {} if whole else self._left
            return
        chances, levels = self.buying.chances[queries], self._levels[queries]
        stages = self._staged(queries, cells, judging, chances, np.array(first))
        scores, errors = expected_scores(stages, chances, levels)
        self._scores.add(queries, cells, scores)
        self.errors[queries[:, None], :, columns] = np.nan_to_num(errors).transpose(0, 2, 1)
        is_sure = np.logical_and.reduce((chances == 0) | (chances == 1), axis=1)
        self.estimated[at] = np.where(is_sure[:, None], np.nan, scores)
        self._left |= {key: left for key, left in self._unbought(queries).items() if left}

    def _questions(self, rounds: Rounds) -> AskedQuestions | None:
        """Return the questions about the remaining cells; None where none are drawn, or while they are too many."""
        if self._metric is None:
            return None
        cells = np.array(rounds.remaining)
        if self._asked is None and len(cells) * len(self._scores.case_ids) > LARGEST // FEWEST:
            return None
        if self._asked is None:
            mask = np.zeros(self._scores.proxy.shape[1], dtype=np.bool_)
            mask[cells] = True
            self._asked = questions_of(self._metric, self._scores.ids(mask), self._scores.labels, self._seed)
        else:
            own = self._asked.questions.of(np.searchsorted(self._cells, cells))
            self._asked = replace(self._asked, questions=own)
        self._cells = cells
        return self._asked

    def _wanted(self, queries: Integers) -> dict[str, AbstractSet[Selected]]:
        """Return the questions of queries that are bought; those of a query that is not there are all."""
        if self.buying is None or self._asked is None:
            return {}
        bought = self.buying.chances[queries] >= np.array(LEVELS)[self._levels[queries]][:, None]
        return {key: self._keys(row, mine) for (key, row), mine in zip(self._named(queries), bought, strict=True)}

    def _unbought(self, queries: Integers) -> dict[str, frozenset[Selected]]:
        assert self.buying is not None
        chances = self.buying.chances[queries]
        left = (chances > 0) & (chances < np.array(LEVELS)[self._levels[queries]][:, None])
        return {key: self._keys(row, mine) for (key, row), mine in zip(self._named(queries), left, strict=True)}

    def _named(self, queries: Integers) -> list[tuple[str, int]]:
        return [(self._scores.case_ids[row], row) for row in queries.tolist()]

    def _keys(self, row: int, mask: Bools) -> frozenset[Selected]:
        assert self._asked is not None
        keys = self._asked.keys[row]
        return frozenset(keys[index] for index in np.flatnonzero(mask).tolist())

    def _part(self, result: Observation, wanted: AbstractSet[Selected] | None) -> Observation | None:
        """Return a result with the chunks to ask about alone; None where there are none."""
        if wanted is None:
            return result
        if self._metric is not None and JUDGED[self._metric].by_chunk:
            places = [index for index, chunk in enumerate(result.ranked_ids) if (chunk,) in wanted]
            return replace(result, selection=result.selection.at(places)) if places else None
        return result if result.ranked_ids in wanted else None

    def _staged(
        self, queries: Integers, cells: Bools, judging: Judging, chances: Floats, first: Integers
    ) -> list[Floats]:
        """Return scores [queries, cells] at each level: by verdicts at it and above, else as the labels foretell."""
        assert self._metric is not None and self._asked is not None
        if JUDGED[self._metric].by_chunk:
            return [
                self._scores.scored(queries, cells, self._mixed(queries, judging, chances >= level)) for level in LEVELS
            ]
        own = self._asked.questions.asked[queries]
        # Of each [query, cell] the chance of its only question; 1 where nothing is returned, and nothing is asked.
        chance = np.where(own.any(axis=2), (own * chances[:, None]).max(axis=2), 1.0)
        scores, foretold = self._scores.scored(queries, cells, judging), self._foretold(queries, cells, judging, first)
        bought = chance >= np.array(LEVELS)[self._levels[queries]][:, None] if len(queries) else chance > 0
        known = np.where(bought | ~np.isnan(scores), scores, foretold)
        return [np.where(chance >= level, known, foretold) for level in LEVELS]

    def _mixed(self, queries: Integers, judging: Judging, by_judge: Bools) -> Judging:
        """Return verdicts on chunks, those beyond a level being the labels."""
        verdicts = dict(judging.verdicts)
        assert self._asked is not None
        for (case_id, row), judged in zip(self._named(queries), by_judge, strict=True):
            for (chunk,), counts in zip(self._asked.keys[row], judged.tolist(), strict=False):
                if not counts or (case_id, chunk) not in verdicts:
                    useful = int(chunk in self._scores.labels[row])
                    verdicts[case_id, chunk] = ChunkVerdict(verdict=useful, reason="")
        return replace(judging, verdicts=verdicts)

    def _foretold(self, queries: Integers, cells: Bools, judging: Judging, first: Integers) -> Floats:
        """Return what labels foretell of scores: their regression in the first round, which no later verdict moves."""
        scores, proxy = self._scores.scored(first, cells, judging), self._scores.proxy[:, cells]
        whole = ~np.isnan(scores).any(axis=1)
        known = proxy[first][whole]
        if not whole.any():
            return proxy[queries]
        weight = shrunk_weight(scores[whole], known)
        foretold: Floats = scores[whole].mean() + weight * (proxy[queries] - known.mean())
        return foretold
