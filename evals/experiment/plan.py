"""`--plan`: the calls of a run and their cost, without a call of the judge."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evals.cases.relevance import Relevance
from evals.collect.observations import Observation
from evals.collect.pool import Grounds
from evals.config.experiment import ExperimentConfig
from evals.experiment.inputs import Inputs
from evals.grid.measure import alone, grid_of, metrics_of, retrieve
from evals.judge.judge import Judge, tier_sizes
from evals.judge.plan import SECONDS_PER_CALL, JudgePlan, plan, stopped
from evals.metrics import NEED_A_JUDGE, needs
from evals.metrics.collaborators import Collaborators
from evals.metrics.declaration import Metric
from evals.report.section import Cell, Column, Section, line, terminal
from evals.report.sections import numbers

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
    config, sweep, judge, cases = inputs.config, inputs.sweep, collaborators.judge, inputs.golden.cases
    metrics = metrics_of(config, sweep)
    whole = sweep or alone(config)
    if saved:
        pool = saved.pool(cases, range(len(whole.variants)))
        searches = [f"none: all candidates are in the saved retrieval {saved.name!r}"]
    else:
        # What is relevant says nothing of what the judge will see.
        unknown = Grounds(relevance={case.id: Relevance() for case in cases}, texts={})
        pool = retrieve(whole, inputs.golden, unknown, collaborators)
        searches = list(_searches(inputs, metrics, collaborators))
    sections = [Section(title="Retrieval", lines=[line(f"  {text}") for text in searches])]
    if judge is None:
        sections.append(Section(title="Judge", lines=[line("  none (judge.model): no LLM-graded metric, no call")]))
    else:
        # The judge would see every distinct result.
        selected = list(grid_of(whole, pool).laid_out()[0].observations())
        plans = _of_tiers(judge, [*metrics], selected, inputs)
        sections += [_of_judge(each, plans, inputs) for each in plans]
        if len(plans) > 1:
            calls, usd = sum(each.total.calls for each in plans), [each.usd for each in plans if each.usd is not None]
            money = f", about {sum(usd):,.2f} USD" if len(usd) == len(plans) else ""
            sections.append(Section(lines=[line(f"All judges: {calls:,} calls{money}")]))
    return terminal(sections, width=width, color=False)


def _of_tiers(judge: Judge, metrics: Sequence[str], selected: Sequence[Observation], inputs: Inputs) -> list[JudgePlan]:
    """Return the plan of each judge, the one that the others help last."""
    config, longest = inputs.config, dict[str, Observation]()
    for one in selected:
        # Of a sweep it is not known yet which will be judged again.
        if len(one.selection) > len(longest.setdefault(one.case.id, one).selection):
            longest[one.case.id] = one
    queries = sum(case.in_scope for case in inputs.golden.cases)
    in_rounds = inputs.sweep is not None and config.judge.stop.margin is not None
    sizes = tier_sizes(judge, queries, in_rounds=in_rounds) if judge.below else [queries]
    return [
        plan(tier, metrics, selected, [*longest.values()], config.seed)
        for tier, size in zip(judge.tiers, sizes, strict=True)
        if size
    ]


def _searches(inputs: Inputs, metrics: Mapping[str, Metric], collaborators: Collaborators) -> Iterator[str]:
    """Yield what retrieval embeds and reranks; of a sweep the lines of every variant begin with its name."""
    config, sweep, cases = inputs.config, inputs.sweep, len(inputs.golden.cases)
    latency, repeats = _further(config, config.objective.constraints if sweep else metrics, cases)
    total = cases + latency + repeats
    further = f"{latency:,} to measure latency, {repeats:,} to repeat queries"
    of = f"{cases:,} for candidates (this plan has made them), {further}"
    names = [f"{variant.name}: " for variant in sweep.variants] if sweep else [""]
    for name, settings in zip(names, (each.settings for each in collaborators.retrievers), strict=True):
        if settings.python is not None:
            yield f"{name}{total:,} searches by python {settings.python}, whatever they call: {of}"
            continue
        local = " (local, free)" if settings.embedding.declared.hosted is False else ""
        yield f"{name}{total:,} query embeddings by {settings.embedding.label}{local}: {of}"
        if settings.reranker.model:
            label = settings.reranker.model(settings).label
            yield f"{name}{total:,} rerank calls by {label}, each of up to {settings.candidates} chunks"
    of_one = _further(config, metrics, cases)
    if of_one != (latency, repeats):
        yield (
            f"the chosen variant: {of_one[0] - latency:,} further searches to measure latency, "
            f"{of_one[1] - repeats:,} to repeat queries"
        )


def _further(config: ExperimentConfig, metrics: Iterable[str], cases: int) -> tuple[int, int]:
    """Return the further searches that measure latency, and that repeat queries."""
    names, timing = list(metrics), config.latency
    latency = timing.warmup + timing.repeats * cases * len(timing.concurrency) if needs(names, "latency") else 0
    return latency, config.determinism.repeats * cases if needs(names, "determinism") else 0


def _of_judge(plan: JudgePlan, plans: Sequence[JudgePlan], inputs: Inputs) -> Section:
    """Return what a judge would be asked, by metric, and what that costs."""
    below = [line(f"  {text}") for text in _remarks(plan, inputs, is_last=plan is plans[-1])]
    early = stopped(inputs.config.judge.budget, plans) if plan is plans[-1] else ""
    if early:
        below.append(line(Cell(early, f"  The run would stop early: {early}.", "fair")))
    rows = []
    for share in (*plan.shares, plan.total):
        counts = (share.questions, share.cached, share.calls, share.tokens_in, share.tokens_out)
        rows.append([Cell(share.metric, f"  {share.metric}"), *(Cell(count, f"{count:,}") for count in counts)])
    queries = f", {plan.drawn:,} queries" if len(plans) > 1 else ""
    return Section(
        lines=[line(Cell("Judge", tone="bold"), f" {plan.model}{queries}")],
        columns=[Column("  metric"), *numbers("questions", "cached", "calls", "tokens in", "tokens out")],
        rows=rows,
        below=below,
    )


def _remarks(plan: JudgePlan, inputs: Inputs, *, is_last: bool) -> Iterator[str]:
    """Yield what the table leaves out and rests on, cost and time."""
    config, queries = inputs.config, sum(case.in_scope for case in inputs.golden.cases)
    if plan.drawn < queries:
        grows = plan.sample == "auto" and plan.drawn < plan.queries
        is_raised = isinstance(plan.sample, float) and plan.sample * plan.queries <= plan.drawn - 1
        usd = "" if plan.most_usd is None else f", about {plan.most_usd:,.2f} USD"
        all_of_them = f"at most all are judged, {plan.most:,} calls more{usd}"
        first = f"the first round, of judge.sample auto: {all_of_them}" if grows else "of judge.sample"
        few = f", as many as an interval needs where {plan.sample:g} is fewer" if is_raised else ""
        yield f"The table counts {plan.drawn:,} of {queries:,} in-scope queries, {first}{few}."
    if (margin := config.judge.stop.margin) is not None:
        yield f"judge.stop ends judging once a cell is proved within {margin:g} of the best; the table counts the most."
    if is_last and inputs.held_out and not NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        yield "The chosen cell is judged on the held-out queries too, which the table does not count."
    if plan.total.calls:
        length = "an average of stored answers" if plan.measured_answers else "a guess"
        yield f"Tokens in are counted with the packaged tokenizer, the model's own may differ; tokens out are {length}."
    money = f"about {plan.usd:,.2f} USD" if plan.usd is not None else f"no price for {plan.model} in judge.prices"
    minutes, seconds = divmod(round(plan.seconds), 60)
    time = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {seconds} s"
    time = time.removeprefix("0 min ")
    yield f"Cost: {money}. Time at the given limits: about {time}, if a call takes {SECONDS_PER_CALL:g} s."
