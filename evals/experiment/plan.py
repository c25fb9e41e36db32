"""`--plan`: the calls of a run and their cost. The judge is not called."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from evals.cases.relevance import Relevance
from evals.collect.observations import Observation
from evals.collect.passes import MOST_QUERIES, REPEATS, WARMUP
from evals.collect.pool import Grounds
from evals.config.judge import JudgeConfig
from evals.experiment.inputs import Inputs
from evals.grid.measure import alone, grid_of, metrics_of, retrieve
from evals.judge.asking import USUAL_ANSWER
from evals.judge.budget import cost, money
from evals.judge.judge import Prompts
from evals.metrics import NEED_A_JUDGE, needs
from evals.metrics.declaration import Collaborators, Metric
from evals.report.section import Column, Section, Styled, line, terminal
from evals.report.sections import numbers
from evals.sampling.order import sample_size
from retrievers.config.models import LOCAL


def describe_plan(inputs: Inputs, bench: Collaborators, *, width: int) -> str:
    """Retrieve once, which embeds every query, and count all other calls of the run.

    Args:
        inputs: The experiment.
        bench: The retriever (for a sweep one for each variant), and the judge if there is one.
        width: Width of the terminal, in columns.

    Raises:
        RetrievalError: A search failed.
    """
    config, judge, saved, cases = inputs.config, bench.judge, inputs.saved, inputs.golden.cases
    metrics, plan = metrics_of(config, inputs.sweep), inputs.sweep or alone(config)
    if saved:
        pool = saved.pool(cases, range(len(plan.variants)))
        searches = [f"none: all candidates are in the saved retrieval {saved.name!r}"]
    else:
        # The relevant chunks do not matter here, since the judge sees the returned ones.
        unknown = Grounds(relevance={case.id: Relevance() for case in cases}, texts={})
        pool = retrieve(plan, inputs.golden, unknown, bench, range(len(plan.variants)))
        searches = [*_searches(inputs, metrics, bench)]
    sections = [Section(title="Retrieval", lines=[line(f"  {text}") for text in searches])]
    if judge is None:
        sections.append(Section(title="Judge", lines=[line("  none (judge.model): no LLM-graded metric, no call")]))
        return terminal(sections, width=width, color=False)
    # The judge would see every distinct result. For a second pass, the longest result of each query stands for the one
    # that the recommended cell will return.
    observations = [*grid_of(plan, pool).laid_out()[0].observations()]
    longest: dict[str, Observation] = {}
    for observation in observations:
        if len(observation.selection) > len(longest.setdefault(observation.case.id, observation).selection):
            longest[observation.case.id] = observation
    queries = sum(case.in_scope for case in cases)
    # The cheaper judge is not asked if the strong judge judges all queries at once: there is no mean to correct. If a
    # grid is judged in rounds, whose number is not known before, it judges all.
    in_rounds = inputs.sweep is not None and config.judge.stop.margin is not None
    is_alone = not in_rounds and sample_size(judge.config.sample, queries) == queries
    tiers = (judge,) if is_alone else judge.tiers
    for tier in tiers if queries else ():
        prompts = tier.plan([*metrics], observations, [*longest.values()], config.seed)
        sections.append(_of_judge(tier.config, prompts, queries, config.judge.stop.margin))
    if inputs.sweep and any(tier.config.rejudge for tier in tiers):
        note = "Judged again is what the recommended cell returns. It is not known yet, so that its calls may differ."
        sections.append(Section(lines=[line(f"  {note}")]))
    if inputs.held_out and not NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        unseen, calls = sum(case.in_scope for case in inputs.held_out.cases), 0.0
        for tier in tiers:
            questions = tier.plan([*config.objective.metrics], [*longest.values()], [], config.seed)
            sample = tier.config.sample
            # A single cell is proved at the first look, whose size is that of `auto`.
            drawn = sample_size("auto" if in_rounds and sample == "all" and tier is judge else sample, unseen)
            calls += len([*chain(*questions.values())]) / max(1, sample_size(sample, queries)) * drawn
        note = f"Not counted: up to {calls:,.0f} calls to judge the recommended cell on {unseen:,} held-out queries."
        sections.append(Section(lines=[line(f"  {note}")]))
    return terminal(sections, width=width, color=False)


def _searches(inputs: Inputs, metrics: Mapping[str, Metric], bench: Collaborators) -> Iterator[str]:
    """Yield lines of what retrieval embeds and reranks. The numbers of a sweep are sums over its variants."""
    config, sweep, cases = inputs.config, inputs.sweep, len(inputs.golden.cases)
    # For each variant of a sweep, only what a constraint reads is measured; the rest for the chosen one alone.
    measured = [*(config.objective.constraints if sweep else metrics)]
    again = min(cases, MOST_QUERIES)
    timed = WARMUP + config.latency.repeats * again * len(config.latency.concurrency)
    latency = timed if needs(measured, "latency") else 0
    repeats = REPEATS * again if needs(measured, "determinism") else 0
    searches, calls = cases + latency + repeats, Counter[str]()
    for settings in (retriever.settings for retriever in bench.retrievers):
        if settings.python is not None:
            calls[f"searches by python {settings.python}, whatever they call"] += searches
            continue
        local = " (local, free)" if settings.embedding.provider in LOCAL else ""
        calls[f"query embeddings by {settings.embedding.model}{local}"] += searches
        if settings.rerank == "cross-encoder":
            kind = f"rerank calls by {settings.cross_encoder.model}, each of up to {settings.candidates} chunks"
            calls[kind] += searches
    yield from (f"{count:,} {kind}" for kind, count in calls.items())
    parts = f"{cases:,} for candidates (this plan has made them), {latency:,} to measure latency"
    yield f"{'each way to retrieve: ' if sweep else ''}{parts}, {repeats:,} to repeat queries"
    if sweep and (needs(metrics, "latency") or needs(metrics, "determinism")):
        yield "the chosen way is timed and repeated besides, which these lines do not count"
    if inputs.held_out:
        yield f"besides, {len(inputs.held_out.cases):,} held-out queries are searched, which these lines do not count"


def _of_judge(config: JudgeConfig, by_metric: Mapping[str, Prompts], queries: int, margin: float | None) -> Section:
    """Return the questions to a judge by metric, and what they cost."""
    rows, price = [], ""
    for metric, prompts in {**by_metric, "all": [*chain(*by_metric.values())]}.items():
        sent = [tokens for tokens in prompts if tokens is not None]
        tokens_in, tokens_out = sum(sent), len(sent) * USUAL_ANSWER
        counts = (len(prompts), len(prompts) - len(sent), len(sent), tokens_in, tokens_out)
        rows.append([Styled(metric), *(Styled(f"{count:,}") for count in counts)])
        price = money(cost(config.price, tokens_in, tokens_out), config.model)
    notes = [f"Cost, if an answer has {USUAL_ANSWER} tokens: {price}."]
    if (drawn := sample_size(config.sample, queries)) < queries:
        first = ", whose first round this is" if config.sample == "auto" else ""
        notes.append(f"Counted are {drawn:,} of {queries:,} in-scope queries: sample {config.sample}{first}.")
    if margin is not None:
        notes.append(f"Judging ends earlier, once a cell is proved within {margin:g} of the best (judge.stop).")
    return Section(
        lines=[line(Styled("Judge", "bold"), f" {config.model}")],
        columns=[Column("metric"), *numbers("questions", "cached", "calls", "tokens in", "tokens out")],
        rows=rows,
        below=[line(f"  {text}") for text in notes],
    )
