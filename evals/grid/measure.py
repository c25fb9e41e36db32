"""The one flow of a measurement: retrieve, judge, score, choose, show one cell. A run is a grid of one cell."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evals.cases.reading import GoldenSet
from evals.cases.relevance import Relevance
from evals.collect import passes
from evals.collect.observations import VERDICT_METRIC, Gate, Observed, Score, Summary, ValidationReport
from evals.collect.pool import Grounds, Pool
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError
from evals.grid.axes import Plan, Variant
from evals.grid.cells import Grid, score_cells
from evals.grid.choice import Choice, HeldOut, decide
from evals.grid.decision import NO_OUT_OF_SCOPE, Decision, decision
from evals.grid.judging import CellProof, judge_sample, judge_until_proved
from evals.grid.objective import Ranking, needed, range_of, rank, with_criteria
from evals.grid.sampled import cell_summary, figures_of, scores_by_query, with_samples
from evals.grid.thresholds import abstaining, fitted
from evals.judge.trust import measure as measure_trust
from evals.judge.verdicts import Judging
from evals.metrics import NEED_A_JUDGE, PASS_RATE, choose, needs, within
from evals.metrics import criteria as gates
from evals.metrics.declaration import Collaborators, Context, Metric, QueryMetric, RunMetric
from evals.metrics.metadata import usual_in
from evals.metrics.notes import notes
from evals.metrics.outcomes import validate
from evals.metrics.results import Results
from evals.stats.abstention import Promise, Signal
from retrievers.config import RetrieverConfig
from retrievers.search.candidates import Candidates

NOT_MEASURED = "not measured: the run started from a saved retrieval"


@dataclass(frozen=True, kw_only=True)
class Swept:
    """The result of a sweep: its cells, their ranking, and the choice.

    Attributes:
        grid: Its cells.
        ranking: The cells by the objective.
        choice: Which cell to use, and what is known of it; None where cells cannot be ranked, and the first is shown.
        decision: The cell to take for each share of wrong answers that a user accepts; None where cells cannot be
            ranked, or the golden data has no query in scope or none out of scope.
        promised: Thresholds that promise a rate of wrong answers under the cell's variant.
        signals: How far scores tell its queries in scope from others, first the one that the threshold reads.
        held_out: The recommended cell on queries that had no part in the choice; None without any.
        proof: What the verdicts that were bought prove of the cells, where judging ends once a cell is proved near the
            best (`judge.stop`); else None.
    """

    grid: Grid
    ranking: Ranking
    choice: Choice | None
    decision: Decision | None = None
    promised: tuple[Promise, ...] = ()
    signals: tuple[Signal, ...] = ()
    held_out: HeldOut | None = None
    proof: CellProof | None = None

    @property
    def chosen(self) -> int | None:
        """The cell that was chosen; None where cells cannot be ranked."""
        return None if self.choice is None else self.choice.recommended.cell


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measurement, from which the report is built: one cell in full, and of a sweep all cells.

    Attributes:
        config: The experiment, with the retriever of the cell.
        observed: The golden queries and what the cell returned; latency and repetitions.
        results: The same results as arrays, one a query.
        scores: Metric to case id to score, for the metrics that score queries.
        proxies: Judged metric to case id to the score of what foretells it (`evals.metrics.proxies`).
        notes: Notes for the reader of the figures.
        context: Inputs of the metrics besides the results, among them the verdicts of the judge.
        swept: The cells of a sweep; None for a run.
        splits: Those of the golden data; none of a saved retrieval, which holds the chosen cases alone.
    """

    config: ExperimentConfig
    observed: Observed
    results: Results
    scores: Mapping[str, Mapping[str, Score]]
    summaries: Sequence[Summary]
    gates: Sequence[Gate]
    validation: ValidationReport
    context: Context
    notes: Sequence[str] = ()
    proxies: Mapping[str, Mapping[str, Score]] = field(default_factory=dict)
    swept: Swept | None = None
    splits: Collection[str] = ()

    @property
    def judging(self) -> Judging | None:
        """Verdicts of the judge, None without a judge."""
        return self.context.judging


def measure_pool(
    config: ExperimentConfig, pool: Pool, collaborators: Collaborators, sweep: Plan | None = None
) -> Measured:
    """Score a pool of candidates: run its cells, choose one, and measure that in full.

    Args:
        config: The experiment.
        pool: The candidates under every variant, in their order.
        collaborators: Retrievers, one a variant in their order; without any, latency and determinism are not measured.
            Source pages and judge where there are any.
        sweep: The cells; None for the experiment's own.

    Raises:
        RetrievalError: A search failed.
        ExperimentError: No cell meets the constraints.
        JudgeError: The judge refused its very first call.
    """
    metrics = metrics_of(config, sweep)
    plan, notes = fitted(config, pool, sweep or alone(config))
    required = config.retriever.metadata.required
    required = usual_in(pool) if required is None else required
    context = Context(required=required, sources=collaborators.sources, relevant_texts=pool.texts, seed=config.seed)
    grid = grid_of(plan, pool)
    if sweep is None:
        config = config.model_copy(update={"retriever": plan.variants[0].settings})
    measured_first = config.objective.constraints if sweep else metrics
    grid = _with_passes(grid, range(len(plan.variants)), config, measured_first, collaborators)
    judge = collaborators.judge
    proof = None
    if judge and not NEED_A_JUDGE.isdisjoint(metrics):
        if sweep and judge.config.stop.margin is not None:
            judging, proof = judge_until_proved(judge, metrics, config.objective, grid, context)
        else:
            judging = judge_sample(judge, metrics, grid, context)
        context = replace(context, judging=judging)
    if sweep or (context.judging and context.judging.drawn):
        grid = _scored(grid, metrics, context, proof)
    swept = None
    shown = 0
    if sweep:
        swept = _chosen(config, grid, context, proof)
        shown = swept.chosen or 0
        grid = _with_passes(swept.grid, [grid.cell(shown).variant], config, metrics, collaborators)
        swept = replace(swept, grid=_summarised(grid, metrics, context))
    if judge and context.judging:
        # After the first pass, so that a budget buys first verdicts before second ones.
        judging = context.judging
        results = list(grid.results(shown).observations())
        if config.judge.rejudge:  # not of held-out queries
            judging = judge.again(judging, metrics, results, config.seed)
        context = replace(context, judging=judging, trust=measure_trust(judging, results, config.seed))
    named = {*config.metrics, *config.criteria, *(needed(config.objective) if sweep else ())}
    run = _cell(grid, shown, config, within(metrics, grid.settings(shown), named), context)
    run = replace(run, swept=swept, notes=[*notes, *run.notes])
    return replace(run, notes=[*run.notes, *_notes(run, swept)]) if swept else run


def alone(config: ExperimentConfig) -> Plan:
    """Return a plan with one cell: the retriever's settings as the experiment has them."""
    settings = config.retriever
    thresholds = (settings.threshold or 0.0,)
    only = Variant(name="", parameters={}, settings=settings, thresholds=thresholds)
    return Plan(variants=(only,), top_ks=(settings.top_k,))


def metrics_of(config: ExperimentConfig, sweep: Plan | None) -> dict[str, Metric]:
    """Return the metrics of a run: those chosen and those of the criteria; of a grid also what its choice reads.

    Those that read further than any list goes are there when they are named.

    Raises:
        ExperimentError: A name or pattern fits no metric; the objective is none over queries, or one to lower; or a
            constraint is the same for all cells.
    """
    longest = config.retriever
    if sweep:  # lists as long as the longest result of a cell, and the least depth
        depth = min(variant.settings.candidates for variant in sweep.variants)
        longest = longest.model_copy(update={"top_k": max(sweep.top_ks), "candidates": depth})
    whole = dict.fromkeys(needed(config.objective) if sweep else (), "objective")
    whole |= dict.fromkeys(config.criteria, "criteria")
    judged, levels = config.judge.model is not None, config.latency.concurrency
    metrics = choose([*config.metrics, *whole], levels, judged=judged, reach=longest, whole=whole)
    for name in config.objective.constraints if sweep else ():
        if name in NEED_A_JUDGE and not isinstance(metrics[name], QueryMetric):
            raise ExperimentError(f"objective.constraints: {name!r} is the same for all cells; make it a criterion")
    for name, weight in config.objective.metrics.items() if sweep else ():
        if not isinstance(metric := metrics.get(name), QueryMetric):
            remedy = f"; it can be a constraint: objective.constraints: {{{name}: '<= ...'}}"
            fault = f"objective: {name!r} has no score for each query, by which cells are compared"
            raise ExperimentError(fault if name in NEED_A_JUDGE else fault + remedy)
        if metric.direction == "lower" and weight > 0:
            raise ExperimentError(
                f"objective: less is better of {name!r}, expected a negative weight: objective.metrics: {{{name}: -1}}"
            )
    return metrics


def retrieve(
    plan: Plan,
    golden: GoldenSet,
    grounds: Grounds,
    collaborators: Collaborators,
    numbers: Sequence[int] | None = None,
) -> Pool:
    """Run golden queries through variants, once each, in batches at full depth.

    Args:
        plan: The variants.
        golden: The golden queries.
        grounds: Relevant chunks of these queries.
        collaborators: A retriever for each variant, in their order.
        numbers: The variants that are wanted; all when left out.

    Raises:
        RetrievalError: A search failed.
    """
    tables, relevance, searched = list[Candidates](), list[tuple[Relevance, ...]](), list[RetrieverConfig]()
    wanted = range(len(plan.variants)) if numbers is None else numbers
    for number in wanted:
        # What the threshold reads changes nothing in what is found.
        searched.append(plan.variants[number].settings.model_copy(update={"threshold_on": "each"}))
        if (same := searched.index(searched[-1])) < len(tables):
            tables.append(tables[same])
            relevance.append(relevance[same])
            continue
        retriever = collaborators.retrievers[number]
        progress = _with_name(collaborators.progress, plan.variants[number].name if len(wanted) > 1 else "")
        # One table of chunks for all variants, so that no chunk is read twice.
        table = passes.collect(retriever, golden.cases, progress, tables[0].chunks if tables else None)
        among = grounds.among(golden.cases, table)
        tables.append(table)
        relevance.append(tuple(among[case.id] for case in golden.cases))
    return Pool(
        cases=tuple(golden.cases),
        tables=tuple(tables),
        relevance=tuple(relevance),
        texts=grounds.texts,
        # After the searches, of which a retriever's notes may tell.
        notes=tuple(collaborators.retrievers[number].notes for number in wanted),
    )


def grid_of(plan: Plan, pool: Pool) -> Grid:
    """Return the cells of a plan over what was found under its variants; nothing is scored yet."""

    def observed(number: int) -> Observed:
        lists = pool.lists([number])
        every = tuple(lists.observation(row, ()) for row in range(len(lists)))
        return Observed(observations=every, listed=pool.texts is not None, retriever_notes=pool.notes[number])

    return Grid(plan=plan, pool=pool, observed=tuple(map(observed, range(len(plan.variants)))), notes=plan.notes)


def _with_passes(
    grid: Grid, numbers: Collection[int], config: ExperimentConfig, metrics: Collection[str], bench: Collaborators
) -> Grid:
    """Time single calls and repeat queries of some variants, as far as metrics need it and it was not done.

    Args:
        grid: The grid.
        numbers: The variants.
        config: The numbers of calls.
        metrics: Names of metrics.
        bench: The retrievers.

    Raises:
        RetrievalError: A call failed.
    """
    if not bench.retrievers:
        return replace(grid, observed=tuple(replace(observed, unmeasured=NOT_MEASURED) for observed in grid.observed))
    observed, cases = list(grid.observed), grid.pool.cases
    for number in numbers:
        retriever, seen = bench.retrievers[number], observed[number]
        progress = _with_name(bench.progress, grid.variants[number].name if len(numbers) > 1 else "")
        if needs(metrics, "latency") and not seen.latency:
            seen = replace(seen, latency=passes.measure_latency(retriever, cases, config.latency, progress))
        if needs(metrics, "determinism") and not seen.repetitions:
            first = grid.pool.tables[number]
            seen = replace(seen, repetitions=passes.repeat(retriever, cases, first, progress))
        observed[number] = seen
    return replace(grid, observed=tuple(observed))


def _scored(grid: Grid, metrics: Mapping[str, Metric], context: Context, proof: CellProof | None) -> Grid:
    """Score every cell, and of every variant what belongs to it alone."""
    by_query = {name: metric for name, metric in metrics.items() if isinstance(metric, QueryMetric)}
    scored = replace(_summarised(grid, metrics, context), metrics=score_cells(grid, by_query, context))
    if context.judging is None or context.judging.drawn is None:
        return scored
    return with_samples(scored, by_query, context, proof.judged if proof else None, looks=proof.looks if proof else 1)


def _summarised(grid: Grid, metrics: Mapping[str, Metric], context: Context) -> Grid:
    """Return a grid whose variants have the metrics that belong to them, as far as they were measured.

    The cost of the judge belongs to the whole grid.
    """
    own = [metric for name, metric in metrics.items() if isinstance(metric, RunMetric) and name not in NEED_A_JUDGE]

    def of(observed: Observed) -> tuple[Summary, ...]:
        lacking = {"latency": not observed.latency, "determinism": not observed.repetitions}
        measured = (metric for metric in own if not any(lacking.get(need) for need in metric.needs))
        return tuple(metric.summarise(observed, context) for metric in measured)

    return replace(grid, summaries=tuple(map(of, grid.observed)))


def _chosen(config: ExperimentConfig, grid: Grid, context: Context, proof: CellProof | None) -> Swept:
    incomplete = context.judging.incomplete if context.judging else ""
    objective, notes = with_criteria(grid, config.objective, config.criteria)
    ranking = rank(grid, objective, incomplete, proof.remaining if proof else None)
    choice = decide(grid, ranking, objective, context, proof)
    shown = choice.recommended.cell if choice else 0
    promised, signals = abstaining(grid, shown, config.objective.wrong_answers)
    return Swept(
        grid=replace(grid, notes=(*grid.notes, *notes)),
        ranking=ranking,
        choice=choice,
        decision=decision(grid, objective, ranking.allowed, choice, context) if choice else None,
        promised=promised,
        signals=signals,
        proof=proof,
    )


def _cell(
    grid: Grid, index: int, config: ExperimentConfig, metrics: Mapping[str, Metric], context: Context
) -> Measured:
    """Measure one cell in full: scores of its queries, summaries, criteria, verdicts, notes.

    Args:
        grid: The grid.
        index: The cell's number.
        config: The experiment; in the result its retriever is that of the cell.
        metrics: By name, at depths that the cell has.
        context: Inputs of the metrics besides the results.
    """
    own = config.model_copy(update={"retriever": grid.settings(index)})
    results, observed = grid.results(index), grid.observed[grid.cell(index).variant]
    observed = replace(observed, observations=tuple(results.observations()))
    scores, summaries, proxies = {}, [], {}
    for name, metric in metrics.items():
        if name == VERDICT_METRIC:
            continue
        if not isinstance(metric, QueryMetric):
            summaries.append(metric.summarise(observed, context))
            continue
        scores[name], foretold = scores_by_query(metric, results, context)
        if foretold:
            proxies[name] = foretold
        summaries.append(cell_summary(grid, metric, index, scores[name], foretold))
    summaries.append(figures_of(grid, PASS_RATE, index, context))
    names = [summary.metric for summary in summaries]
    # Times of the verdicts come from serial calls; concurrent ones wait for each other.
    serial = next((timed for timed in observed.latency if timed.concurrency == 1), None)
    # The report names the metadata fields that were required.
    metadata = own.retriever.metadata.model_copy(update={"required": context.required})
    retriever = own.retriever.model_copy(update={"metadata": metadata})
    return Measured(
        config=own.model_copy(update={"retriever": retriever}),
        observed=observed,
        results=results,
        scores=scores,
        summaries=summaries,
        gates=gates.judge(config.criteria, summaries),
        validation=validate(results, serial, context, own.retriever.top_k),
        notes=[*notes(observed, grid.pool, own.retriever, names, context.judging, context.sources)],
        proxies=proxies,
        context=context,
    )


def _notes(run: Measured, swept: Swept) -> Iterator[str]:
    """Yield what a reader must know of a run that is a cell of a grid."""
    grid, ranking, weight = swept.grid, swept.ranking, run.config.objective.out_of_scope
    yield from grid.notes
    if run.judging and run.judging.incomplete and ranking.order:
        yield (
            f"{run.judging.incomplete}: cells are compared on the {min(ranking.n.values())} queries that were judged "
            "in all of them, drawn at random; a further run buys the rest alone"
        )
    if swept.chosen is None:
        yield f"the cells are not ranked ({ranking.reason}); these are the figures of {range_of(grid, [0])}"
    else:
        yield (
            f"chosen out of {len(grid):,} cells on these queries, so its figures are optimistic; a run on a split of "
            "its own is not"
        )
    if grid.size > len(grid.top_ks) and all(case.in_scope for case in grid.pool.cases):
        yield NO_OUT_OF_SCOPE
    elif grid.size > len(grid.top_ks) and weight in (0, 1):
        which = "in-scope" if weight else "out-of-scope"
        yield f"objective.out_of_scope is {weight:g}: {which} queries have no part in the choice"


def _with_name(progress: passes.Progress, name: str) -> passes.Progress:
    return (lambda stage, done, total: progress(f"{name}: {stage}", done, total)) if name else progress
