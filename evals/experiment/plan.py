"""`--plan`: the calls of a run and their cost, without a call of the judge."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from evals.cases.reading import GoldenSet
from evals.cases.relevance import Relevance
from evals.collect.index_recall import is_approximate
from evals.collect.observations import Observation
from evals.collect.pool import Find, Grounds, Pool
from evals.config.experiment import ExperimentConfig
from evals.experiment.inputs import Inputs
from evals.grid.axes import Plan
from evals.grid.measure import alone, grid_of, metrics_of, retrieve
from evals.judge.judge import Judge, tier_sizes
from evals.judge.plan import SECONDS_PER_CALL, JudgePlan, plan, stopped
from evals.metrics import NEED_A_JUDGE, needs
from evals.metrics.collaborators import Collaborators
from evals.metrics.declaration import Metric
from evals.report.section import Cell, Column, Section, line, terminal
from retrievers.config import RetrieverConfig

if TYPE_CHECKING:
    from evals.collect.saved import SavedPool


def describe_plan(inputs: Inputs, collaborators: Collaborators, saved: "SavedPool | None" = None, *, width: int) -> str:
    """Retrieve once, which embeds every query, and count what everything else would call.

    Args:
        inputs: The experiment.
        collaborators: The retriever, or one for each variant of a sweep, and the judge if there is one.
        saved: The saved retrieval that it starts from, None where it searches.
        width: Width of the terminal, in columns.

    Raises:
        RetrievalError: A search failed.
    """
    config, judge = inputs.config, collaborators.judge
    whole = inputs.sweep or alone(config)
    approximate = any(map(is_approximate, collaborators.retrievers))
    metrics = metrics_of(config, inputs.sweep, approximate=approximate)
    find = _finder(whole, inputs.golden, collaborators, saved)
    selected = _selected(whole, find(range(len(whole.variants))))
    in_rounds = inputs.sweep is not None and config.judge.stop.margin is not None
    calls = _tier_plans(judge, list(metrics), selected, config.seed, in_rounds=in_rounds) if judge else []
    held_out = None
    if judge and inputs.held_out and not NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        find = _finder(whole, inputs.held_out, collaborators, saved)
        held_out = max(_calls_of_a_cell(config, whole, number, find, judge) for number in range(len(whole.variants)))
    none = [f"none: all candidates are in the saved retrieval {saved.name!r}"] if saved else []
    searches = none or _searches(inputs, metrics, collaborators)
    return render_plan(calls, searches, limited=stopped(config.judge.budget, calls), held_out=held_out, width=width)


def _tier_plans(
    judge: Judge, metrics: Sequence[str], selected: Sequence[Observation], seed: int, *, in_rounds: bool = False
) -> list[JudgePlan]:
    """Return the plan of each judge that is asked, the cheaper one first."""
    queries = len({observation.case.id for observation in selected if observation.case.in_scope})
    return [
        plan(tier, metrics, selected, _longest(selected), seed)
        for tier, size in zip(judge.tiers, tier_sizes(judge, queries, in_rounds=in_rounds), strict=True)
        if size or tier is judge
    ]


def _finder(plan: Plan, golden: GoldenSet, collaborators: Collaborators, saved: "SavedPool | None") -> Find:
    """Return what finds golden queries; what is relevant to them says nothing of what the judge will see."""
    if saved:
        return partial(saved.pool, golden.cases)
    grounds = Grounds(relevance={case.id: Relevance() for case in golden.cases}, texts={})
    return partial(retrieve, plan, golden, grounds, collaborators)


def _selected(plan: Plan, pool: Pool) -> list[Observation]:
    """Return what the judge would see: every distinct result."""
    results, _ = grid_of(plan, pool).laid_out()
    return list(results.observations())


def _searches(inputs: Inputs, metrics: Mapping[str, Metric], collaborators: Collaborators) -> list[str]:
    """Return the calls of retrieval, line by line; of a sweep the lines of every variant begin with its name."""
    config, cases = inputs.config, len(inputs.golden.cases)
    further = _further_searches(config, metrics, cases)
    names = [""]
    of_the_chosen: list[str] = []
    if inputs.sweep:
        names = [f"{variant.name}: " for variant in inputs.sweep.variants]
        every = _further_searches(config, config.objective.constraints, cases)
        latency, repeated = further[0] - every[0], further[1] - every[1]
        if latency or repeated:
            of_the_chosen = [
                f"the chosen variant: {latency:,} further searches to measure latency, {repeated:,} to repeat queries"
            ]
        further = every
    if needs(metrics, "index"):
        of_the_chosen.append(
            f"{2 * cases:,} searches{' a variant' if inputs.sweep else ''} by vectors that are known, half of them "
            "exact, to compare the index with; where it misses near ones, up to five a query more"
        )
    return [
        f"{name}{line}"
        for name, retriever in zip(names, collaborators.retrievers, strict=True)
        for line in retrieval_calls(retriever.settings, cases, *further)
    ] + of_the_chosen


def _calls_of_a_cell(config: ExperimentConfig, plan: Plan, number: int, find: Find, judge: Judge) -> int:
    """Count the calls that the objective takes at the widest cell of a variant: no other cell of it takes more."""
    of_variant = config.model_copy(update={"retriever": plan.variants[number].settings})
    widest = _selected(alone(of_variant), find([number]))
    return sum(tier.total.calls for tier in _tier_plans(judge, list(config.objective.metrics), widest, config.seed))


def _longest(observations: Sequence[Observation]) -> list[Observation]:
    """Return the largest selection of each query: of a sweep it is not known yet which will be judged again."""
    longest: dict[str, Observation] = {}
    for observation in observations:
        largest = longest.get(observation.case.id)
        if largest is None or len(observation.selection) > len(largest.selection):
            longest[observation.case.id] = observation
    return list(longest.values())


def _further_searches(config: ExperimentConfig, metrics: Iterable[str], cases: int) -> tuple[int, int]:
    latency = determinism = 0
    if needs(metrics, "latency"):
        latency = config.latency.warmup + config.latency.repeats * cases * len(config.latency.concurrency)
    if needs(metrics, "determinism"):
        determinism = config.determinism.repeats * cases
    return latency, determinism


def render_plan(
    plans: Sequence[JudgePlan],
    retrieval: Sequence[str],
    *,
    limited: str = "",
    held_out: int | None = None,
    width: int,
) -> str:
    """Return the plan as text.

    Args:
        plans: Plan of the judge, of a cascade one of each judge, the cheapest first; none without a judge.
        retrieval: Lines on what retrieval itself calls.
        limited: Part that the budget leaves out, empty when it covers everything.
        held_out: The most calls that measuring the chosen cell on held-out queries takes, None where it takes none.
        width: Width of the terminal, in columns.
    """
    sections = [Section(title="Retrieval", lines=[line(f"  {text}") for text in retrieval])]
    if not plans:
        sections.append(Section(title="Judge", lines=[line("  none (judge.model): no LLM-graded metric, no call")]))
    sections += [_of_judge(each, plans, *((held_out, limited) if each is plans[-1] else ())) for each in plans]
    if len(plans) > 1:
        calls, usd = sum(plan.total.calls for plan in plans), [plan.usd for plan in plans if plan.usd is not None]
        money = f", about {sum(usd):,.2f} USD" if len(usd) == len(plans) else ""
        sections.append(Section(lines=[line(f"All judges: {calls:,} calls{money}")]))
    return terminal(sections, width=width, color=False)


def _of_judge(plan: JudgePlan, plans: Sequence[JudgePlan], held_out: int | None = None, limited: str = "") -> Section:
    """Return what a judge would be asked, by metric, and what that costs."""
    queries = f", {plan.drawn:,} queries" if len(plans) > 1 else ""
    below = [line(f"  {text}") for text in _remarks(plan, held_out)]
    if limited:
        below.append(line(Cell(limited, f"  The run would stop early: {limited}.", "fair")))
    return Section(
        lines=[line(Cell("Judge", tone="bold"), f" {plan.model}{queries}")],
        columns=[
            Column("  metric"),
            *(Column(name, is_number=True) for name in ("questions", "cached", "calls", "tokens in", "tokens out")),
        ],
        rows=[
            [
                Cell(share.metric, f"  {share.metric}"),
                *(
                    Cell(count, f"{count:,}")
                    for count in (share.questions, share.cached, share.calls, share.tokens_in, share.tokens_out)
                ),
            ]
            for share in (*plan.shares, plan.total)
        ],
        below=below,
    )


def _remarks(plan: JudgePlan, held_out: int | None) -> Iterator[str]:
    """Yield what the table leaves out and rests on, cost and time."""
    yield from _on_sample(plan)
    if plan.margin is not None:
        yield (
            f"judge.stop ends judging once a cell is proved at most {plan.margin:g} below the best; "
            "the table counts the most."
        )
    if held_out is not None:
        yield (
            f"The held-out queries take at most {held_out:,} calls more, on the chosen cell alone; "
            "the table does not count them."
        )
    if plan.total.calls:
        length = "an average of stored answers" if plan.measured_answers else "a guess"
        yield f"Tokens in are counted with the packaged tokenizer, the model's own may differ; tokens out are {length}."
    money = f"about {plan.usd:,.2f} USD" if plan.usd is not None else f"no price for {plan.model} in judge.prices"
    time = f"about {_duration(plan.seconds)}, if a call takes {SECONDS_PER_CALL:g} s"
    yield f"Cost: {money}. Time at the given limits: {time}."


def _on_sample(plan: JudgePlan) -> Iterator[str]:
    """Yield what a sample of the queries costs that the table does not count."""
    if plan.drawn == plan.queries:
        return
    counted = f"{plan.drawn:,} of {plan.queries:,} in-scope queries"
    all_would = f"{plan.most:,} calls" + ("" if plan.most_usd is None else f", about {plan.most_usd:,.2f} USD")
    if plan.sample == "auto":
        yield (
            f"judge.sample auto judges at least its first round of {counted}, which the table counts, and at most all: "
            f"{all_would}."
        )
    else:
        few = ""
        if isinstance(plan.sample, float) and plan.sample * plan.queries <= plan.drawn - 1:
            few = f", as many as an interval needs where {plan.sample:g} is fewer"
        yield f"The table counts the {counted} of judge.sample{few}; all would take {all_would}."


def retrieval_calls(config: RetrieverConfig, cases: int, latency_calls: int, determinism_calls: int) -> list[str]:
    """Return what retrieval embeds and reranks, line by line.

    Args:
        config: The retriever.
        cases: Number of queries.
        latency_calls: Further searches that measure latency.
        determinism_calls: Further searches that repeat queries.
    """
    if config.python is not None:
        return [
            f"{cases + latency_calls + determinism_calls:,} searches by python {config.python}, whatever they call: "
            f"{cases:,} for candidates (this plan has made them), {latency_calls:,} to measure latency, "
            f"{determinism_calls:,} to repeat queries"
        ]
    local = " (local, free)" if config.embedding.declared.hosted is False else ""
    total = cases + latency_calls + determinism_calls
    lines = [
        f"{total:,} query embeddings by {config.embedding.label}{local}: {cases:,} for candidates (this plan has made "
        f"them), {latency_calls:,} to measure latency, {determinism_calls:,} to repeat queries"
    ]
    if config.reranker.model:
        reranker = config.reranker.model(config)
        lines.append(f"{total:,} rerank calls by {reranker.label}, each of up to {config.candidates} chunks")
    return lines


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
