"""The one flow of a measurement: retrieve, judge, score, choose a cell, and measure that cell in full.

A run is a grid of one cell.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evals.cases.reading import GoldenSet
from evals.cases.relevance import Relevance, labelled_ids
from evals.collect import passes
from evals.collect.observations import VERDICT_METRIC, Gate, Observed, Score, Summary, ValidationReport
from evals.collect.pool import Grounds, Pool
from evals.config.experiment import ExperimentConfig
from evals.errors import ExperimentError
from evals.grid.axes import Plan, Variant
from evals.grid.cells import Grid, score_cells
from evals.grid.choice import Choice, HeldOut, decide
from evals.grid.decision import NO_OUT_OF_SCOPE, Decision, decision, over_scope
from evals.grid.judging import CellProof, judge_sample, judge_until_proved
from evals.grid.objective import FALSE_ABSTENTION, Ranking, meeting, needed, rank, with_criteria
from evals.grid.sampled import cell_summary, figures_of, scores_by_query, with_samples
from evals.grid.thresholds import abstaining, fitted
from evals.judge.trust import CORRECTED
from evals.judge.trust import measure as measure_trust
from evals.judge.verdicts import Judging
from evals.metrics import NEED_A_JUDGE, PASS_RATE, choose, needs, within
from evals.metrics import criteria as gates
from evals.metrics.declaration import Collaborators, Context, Metric, QueryMetric, RunMetric
from evals.metrics.metadata import usual_in
from evals.metrics.notes import notes, on_judge
from evals.metrics.outcomes import validate
from evals.metrics.results import Results
from evals.stats.abstention import Promise, Signal
from evals.stats.intervals import SAME
from retrievers.config import RetrieverConfig
from retrievers.errors import RetrievalError
from retrievers.search.candidates import Candidates

ANSWERS = {FALSE_ABSTENTION: "< 1"}
# From this share of silent in-scope queries on, the recommended cell has a note.
MOST_SILENT = 0.5
VERBATIM = "content/verbatim"
NOT_MEASURED = "not measured: the run started from a saved retrieval"


@dataclass(frozen=True, kw_only=True)
class Swept:
    """The result of a sweep: its cells, their ranking, and the choice.

    Attributes:
        grid: The cells.
        ranking: The cells by the objective.
        choice: The cell to use, with the evidence for it; None if cells cannot be ranked. The first cell is then shown.
        decision: The cell to take for each share of wrong answers that a user accepts; None if cells cannot be ranked,
            or if the golden data lacks in-scope or out-of-scope queries.
        promised: Thresholds that promise a rate of wrong answers under the shown cell's variant.
        signals: How well each score of that variant separates in-scope from out-of-scope queries. The score that the
            threshold reads comes first.
        held_out: The recommended cell on queries that had no part in the choice; None without such queries.
        proof: What the bought verdicts prove of the cells, if judging ends once a cell is proved near the best
            (`judge.stop`); else None.
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
        """The number of the recommended cell; None if cells cannot be ranked."""
        return None if self.choice is None else self.choice.recommended.cell


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measurement: one cell in full and, for a sweep, all cells. The report is built from it.

    Attributes:
        config: The experiment, with the retriever of the cell.
        observed: The golden queries, what the cell returned for them, latency and repetitions.
        results: The same results as arrays, one row a query.
        scores: Metric to case id to score, for the metrics that score queries.
        summaries: The metrics of the cell, each with interval and counts.
        gates: The criteria of the experiment, each with its verdict.
        validation: The outcome of each query.
        context: Inputs of the metrics besides the results, among them the verdicts of the judge.
        notes: Notes for the reader of the figures.
        proxies: Judged metric to case id to the score of its proxy (`evals.metrics.proxies`).
        swept: The cells of a sweep; None for a run.
        splits: Splits of the golden data; none for a saved retrieval, which holds the chosen cases alone.
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
        """Verdicts of the judge; None without a judge."""
        return self.context.judging


def measure_pool(
    config: ExperimentConfig, pool: Pool, collaborators: Collaborators, sweep: Plan | None = None
) -> Measured:
    """Score the cells over a pool of candidates, choose one cell, and measure it in full.

    Args:
        config: The experiment.
        pool: The candidates under every variant, in the order of the variants.
        collaborators: A retriever for each variant, in the same order. Without retrievers, latency and determinism are
            not measured. Source pages and a judge if there are any.
        sweep: The cells; None for the one cell of the experiment's own settings.

    Raises:
        RetrievalError: A search failed.
        ExperimentError: No cell meets the constraints.
        JudgeError: The judge refused its very first call.
    """
    metrics = metrics_of(config, sweep)
    plan, notes = fitted(config, pool, sweep or alone(config))
    if sweep is None:
        config = config.model_copy(update={"retriever": plan.variants[0].settings})
    required = config.retriever.metadata.required
    required = usual_in(pool) if required is None else required
    context = Context(required=required, sources=collaborators.sources, relevant_texts=pool.texts, seed=config.seed)
    # Constraints on latency are needed for the choice; other times of a sweep are measured of the chosen variant alone.
    needed_for_choice = config.objective.constraints if sweep else metrics
    grid = grid_of(plan, pool)
    grid = _time_and_repeat(grid, range(len(plan.variants)), config, needed_for_choice, collaborators)

    judge, proof = collaborators.judge, None
    if judge and not NEED_A_JUDGE.isdisjoint(metrics):
        if sweep and judge.config.stop.margin is not None:
            judging, proof = judge_until_proved(judge, metrics, config.objective, grid, context)
        else:
            judging = judge_sample(judge, metrics, grid, context)
        context = replace(context, judging=judging)

    # A run without a sample has no use for the scores of cells: its only cell is measured below.
    if sweep or (context.judging and context.judging.drawn):
        grid = _score(grid, metrics, context, proof)
    swept, shown = None, 0
    if sweep:
        swept = _choose(config, grid, context, proof)
        shown = swept.chosen or 0
        grid = _time_and_repeat(swept.grid, [grid.cell(shown).variant], config, metrics, collaborators)
        swept = replace(swept, grid=_summarise_variants(grid, metrics, context))

    if judge and context.judging:
        # A budget buys the first verdicts on all queries before a second verdict on any.
        judging, observations = context.judging, list(grid.results(shown).observations())
        if config.judge.rejudge:  # 0 for held-out queries
            judging = judge.again(judging, metrics, observations, config.seed)
        context = replace(context, judging=judging, trust=measure_trust(judging, observations, config.seed))
    in_full = {*config.metrics, *config.criteria, *(needed(config.objective) if sweep else ())}
    run = _measure_cell(grid, shown, config, within(metrics, grid.settings(shown), in_full), context)
    sweep_notes = _sweep_notes(swept, config, context.judging) if swept else ()
    return replace(run, swept=swept, notes=[*notes, *run.notes, *sweep_notes])


def alone(config: ExperimentConfig) -> Plan:
    """Return the plan of a run: one cell with the retriever's settings of the experiment."""
    settings = config.retriever
    variant = Variant(name="", parameters={}, settings=settings, thresholds=(settings.threshold or 0.0,))
    return Plan(variants=(variant,), top_ks=(settings.top_k,))


def metrics_of(config: ExperimentConfig, sweep: Plan | None) -> dict[str, Metric]:
    """Return the metrics of a run by name: the chosen ones, those of the criteria, and for a sweep those of its choice.

    A metric that reads further than any list goes is left out, unless the settings name it in full.

    Raises:
        ExperimentError: A name or pattern fits no metric. Or a metric of the objective has no score for each query, or
            is to be lowered and has a positive weight. Or a constraint is the same for all cells.
    """
    longest = config.retriever
    if sweep:  # the longest result of any cell, and the smallest depth of any variant
        depth = min(variant.settings.candidates for variant in sweep.variants)
        longest = longest.model_copy(update={"top_k": max(sweep.top_ks), "candidates": depth})
    settings = dict.fromkeys(needed(config.objective) if sweep else (), "objective")
    settings |= dict.fromkeys(config.criteria, "criteria")
    judged, levels = config.judge.model is not None, config.latency.concurrency
    metrics = choose([*config.metrics, *settings], levels, judged=judged, reach=longest, settings=settings)
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
    plan: Plan, golden: GoldenSet, grounds: Grounds, collaborators: Collaborators, numbers: Sequence[int]
) -> Pool:
    """Search once for every golden query under each variant, in batches, at full depth.

    Args:
        plan: The variants.
        golden: The golden queries.
        grounds: Relevant chunks of these queries.
        collaborators: A retriever for each variant, in the order of the variants.
        numbers: Numbers of the variants to search under.

    Raises:
        RetrievalError: A search failed.
    """
    tables, relevance, searched = list[Candidates](), list[tuple[Relevance, ...]](), list[RetrieverConfig]()
    for number in numbers:
        # Variants that differ only in the score that the threshold reads find the same candidates.
        searched.append(plan.variants[number].settings.model_copy(update={"threshold_on": "each"}))
        if (same := searched.index(searched[-1])) < len(tables):
            tables.append(tables[same])
            relevance.append(relevance[same])
            continue
        retriever = collaborators.retrievers[number]
        if grounds.texts is None:  # labels by id mean every text with the id, quotes the texts themselves
            retriever.by_text = not labelled_ids(golden.cases)
        progress = _with_name(collaborators.progress, plan.variants[number].name if len(numbers) > 1 else "")
        # All variants share one table of chunks, so that no chunk is read twice.
        table = passes.collect(retriever, golden.cases, progress, tables[0].chunks if tables else None)
        among = grounds.among(golden.cases, table)
        tables.append(table)
        relevance.append(tuple(among[case.id] for case in golden.cases))
    return Pool(
        cases=tuple(golden.cases),
        tables=tuple(tables),
        relevance=tuple(relevance),
        texts=grounds.texts,
        # Read after the searches: a retriever may add notes while it searches.
        notes=tuple(collaborators.retrievers[number].notes for number in numbers),
    )


def grid_of(plan: Plan, pool: Pool) -> Grid:
    """Return the cells of a plan over the candidates of its variants, without scores."""
    observed = list[Observed]()
    for number in range(len(plan.variants)):
        lists = pool.lists([number])
        observations = tuple(lists.observation(row, ()) for row in range(len(lists)))
        observed.append(Observed(observations=observations, retriever_notes=pool.notes[number]))
    return Grid(plan=plan, pool=pool, observed=tuple(observed))


def _time_and_repeat(
    grid: Grid, numbers: Collection[int], config: ExperimentConfig, metrics: Collection[str], bench: Collaborators
) -> Grid:
    """Return the grid with timed calls and repeated queries of some variants, where metrics need them.

    Of more than 500 queries, 500 are timed and repeated.

    A pass that the grid has already is not made again. Without retrievers, the grid says why there are no passes. A
    call that fails leaves the rest of a variant unmeasured, and the run incomplete: what was found before stays.

    Args:
        grid: The grid.
        numbers: Numbers of the variants.
        config: Says how many calls are timed.
        metrics: Names of the metrics.
        bench: The retrievers.
    """
    if not bench.retrievers:
        return replace(grid, observed=tuple(replace(observed, unmeasured=NOT_MEASURED) for observed in grid.observed))
    passes_of, places = list(grid.observed), passes.asked_again(grid.pool.cases)
    cases = [grid.pool.cases[place] for place in places]
    for number in numbers:
        retriever, observed = bench.retrievers[number], grid.observed[number]
        progress = _with_name(bench.progress, grid.variants[number].name if len(numbers) > 1 else "")
        try:
            if needs(metrics, "latency") and not observed.latency:
                observed = replace(observed, latency=passes.measure_latency(retriever, cases, config.latency, progress))
            if needs(metrics, "determinism") and not observed.repetitions:
                first = [grid.pool.tables[number][place] for place in places]
                observed = replace(observed, repetitions=passes.repeat(retriever, cases, first, progress))
        except RetrievalError as error:
            observed = replace(observed, unmeasured=str(error), n_lost=len(cases))
        passes_of[number] = observed
    return replace(grid, observed=tuple(passes_of))


def _score(grid: Grid, metrics: Mapping[str, Metric], context: Context, proof: CellProof | None) -> Grid:
    """Return the grid with the scores of every cell, and with the metrics of every variant."""
    by_query = {name: metric for name, metric in metrics.items() if isinstance(metric, QueryMetric)}
    scored = replace(_summarise_variants(grid, metrics, context), metrics=score_cells(grid, by_query, context))
    if context.judging is None or context.judging.drawn is None:
        return scored
    return with_samples(scored, by_query, context, proof)


def _summarise_variants(grid: Grid, metrics: Mapping[str, Metric], context: Context) -> Grid:
    """Return the grid with the metrics that belong to variants, as far as their passes were made.

    What judging cost belongs to the whole grid, and is not among them.
    """
    of_variants = [m for name, m in metrics.items() if isinstance(m, RunMetric) and name not in NEED_A_JUDGE]
    summaries = list[tuple[Summary, ...]]()
    for observed in grid.observed:
        lacking = {"latency": not observed.latency, "determinism": not observed.repetitions}
        measured = [metric for metric in of_variants if not any(lacking.get(need) for need in metric.needs)]
        summaries.append(tuple(metric.summarise(observed, context) for metric in measured))
    return replace(grid, summaries=tuple(summaries))


def _choose(config: ExperimentConfig, grid: Grid, context: Context, proof: CellProof | None) -> Swept:
    """Rank the cells, choose one, and say what its thresholds can do; nothing is held out yet."""
    incomplete = context.judging.incomplete if context.judging else ""
    objective, notes = with_criteria(grid, config.objective, config.criteria)
    # A cell that answers nobody is nobody's choice, unless what is found has no part in it.
    is_weighed = objective.out_of_scope < 1 or any(over_scope(objective, "in_scope").values())
    if is_weighed and not meeting(grid, ANSWERS).all():
        objective, _ = with_criteria(grid, objective, ANSWERS)
    ranking = rank(grid, objective, incomplete, proof.remaining if proof else None)
    choice = decide(grid, ranking, objective, context, proof)
    if choice:  # a query that one metric drops is dropped by all
        values = ranking.values.copy()
        for standing in choice.standings:
            values[list(standing.members)] = standing.value
        ranking = replace(ranking, values=values)
    shown = choice.recommended.cell if choice else 0
    promised, signals = abstaining(grid, shown, config.objective.wrong_answers)
    return Swept(
        grid=replace(grid, plan=replace(grid.plan, notes=(*grid.plan.notes, *notes))),
        ranking=ranking,
        choice=choice,
        decision=decision(grid, objective, ranking.allowed, choice, context) if choice else None,
        promised=promised,
        signals=signals,
        proof=proof,
    )


def _measure_cell(
    grid: Grid, index: int, config: ExperimentConfig, metrics: Mapping[str, Metric], context: Context
) -> Measured:
    """Measure one cell in full: scores of its queries, summaries, criteria, outcomes, notes.

    Args:
        grid: The grid.
        index: The cell's number.
        config: The experiment. In the result, its retriever has the settings of the cell.
        metrics: The metrics by name, at depths that the cell has.
        context: Inputs of the metrics besides the results.
    """
    results, settings = grid.results(index), grid.settings(index)
    observed = grid.observed[grid.cell(index).variant]
    observed = replace(observed, observations=tuple(results.observations()))
    scores, proxies = dict[str, Mapping[str, Score]](), dict[str, Mapping[str, Score]]()
    summaries = list[Summary]()
    for name, metric in metrics.items():
        if name == VERDICT_METRIC:
            continue
        if not isinstance(metric, QueryMetric):
            summaries.append(metric.summarise(observed, context))
            continue
        scores[name], proxy_scores = scores_by_query(metric, results, context)
        if proxy_scores:
            proxies[name] = proxy_scores
        summaries.append(cell_summary(grid, metric, index, scores[name], proxy_scores))
    summaries.append(figures_of(grid, PASS_RATE, index, context))
    names = [summary.metric for summary in summaries]
    corrected = [s for s in summaries if s.metric == CORRECTED and s.value is None]
    asked = context.judging and any(observation.case.human_verdicts for observation in observed.observations)
    remarks = [f"human_verdicts correct no figure: {summary.note}" for summary in corrected if asked]
    serial = observed.latency.get(1, ())  # concurrent calls wait for each other
    verbatim = next((summary.value for summary in summaries if summary.metric == VERBATIM), None)
    if verbatim is not None and verbatim < 1 - SAME:
        differing = f"returned chunks differ from their pages ({VERBATIM} {verbatim:.3f})"
        remarks.insert(0, f"{differing}: if pages changed, index them again")
    # The report names the metadata fields that were required.
    metadata = settings.metadata.model_copy(update={"required": context.required})
    return Measured(
        config=config.model_copy(update={"retriever": settings.model_copy(update={"metadata": metadata})}),
        observed=observed,
        results=results,
        scores=scores,
        summaries=summaries,
        gates=gates.judge(config.criteria, summaries),
        validation=validate(results, serial, context, settings),
        notes=[
            *notes(observed, grid.pool, settings, names, context.sources),
            *on_judge(config.judge.model, context.judging, config.metrics),
            *_short(grid),
            *remarks,
        ],
        proxies=proxies,
        context=context,
    )


def _short(grid: Grid) -> Iterator[str]:
    """Note that no list is as long as the largest top_k, such as those of a LangChain retriever with its own `k`."""
    longest, most = max(int((t.codes >= 0).sum(axis=1).max(initial=0)) for t in grid.pool.tables), max(grid.top_ks)
    if 0 < longest < most:
        yield f"no query got more than {longest} chunks: a larger top_k, up to {most}, has the same results"


def _sweep_notes(swept: Swept, config: ExperimentConfig, judging: Judging | None) -> Iterator[str]:
    """Yield notes for the reader of a cell that was chosen out of a grid."""
    grid, ranking = swept.grid, swept.ranking
    weight = swept.decision.weight if swept.decision else config.objective.out_of_scope
    yield from grid.plan.notes
    judged = [n for name, n in ranking.n.items() if name in NEED_A_JUDGE]
    if judging and judging.incomplete and ranking.order and judged:
        yield (
            f"{judging.incomplete}: cells are compared on the {min(judged)} queries that were judged "
            "in all of them, drawn at random; a further run buys the rest alone"
        )
    if swept.chosen is not None and len(grid) > 1:
        yield (
            f"chosen out of {len(grid):,} cells on these queries, so its figures are optimistic; a run on a split of "
            "its own is not"
        )
    figures = swept.decision.recommended.figures if swept.decision else ()
    if figures and (silent := figures.false_abstention.value or 0) >= MOST_SILENT:
        if config.threshold.false_answer is None:
            remedy = f"lower the weight of out-of-scope queries ({weight:g}), or sweep lower thresholds"
        else:
            remedy = f"allow more wrong answers (threshold.false_answer {config.threshold.false_answer:g})"
        yield f"the recommended cell returns nothing for {silent:.0%} of the queries in scope: {remedy}"
    if grid.size > len(grid.top_ks) and all(case.in_scope for case in grid.pool.cases):
        yield NO_OUT_OF_SCOPE
    elif grid.size > len(grid.top_ks) and weight in (0, 1):
        which = "in-scope" if weight else "out-of-scope"
        yield f"the weight of out-of-scope queries is {weight:g}: {which} queries have no part in the choice"


def _with_name(progress: passes.Progress, name: str) -> passes.Progress:
    """Return a progress function that puts the name of a variant before the stage; the same without a name."""
    return (lambda stage, done, total: progress(f"{name}: {stage}", done, total)) if name else progress
