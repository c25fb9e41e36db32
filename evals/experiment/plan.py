"""`--plan`: the calls of a run and their cost, without a call of the judge."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from evals.cases.relevance import Relevance
from evals.collect.observations import Observation
from evals.collect.passes import REPEATS, WARMUP
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


def describe_plan(inputs: Inputs, bench: Collaborators, *, width: int) -> str:
    """Retrieve once, which embeds every query, and count what everything else would call.

    Args:
        inputs: The experiment.
        bench: The retriever, or one for each variant of a sweep, and the judge if there is one.
        width: Width of the terminal, in columns.

    Raises:
        RetrievalError: A search failed.
    """
    config, judge, saved, cases = inputs.config, bench.judge, inputs.saved, inputs.golden.cases
    metrics, whole = metrics_of(config, inputs.sweep), inputs.sweep or alone(config)
    if saved:
        pool = saved.pool(cases, range(len(whole.variants)))
        searches = [f"none: all candidates are in the saved retrieval {saved.name!r}"]
    else:
        # What is relevant says nothing of what the judge will see.
        unknown = Grounds(relevance={case.id: Relevance() for case in cases}, texts={})
        pool = retrieve(whole, inputs.golden, unknown, bench)
        searches = [*_searches(inputs, metrics, bench)]
    sections = [Section(title="Retrieval", lines=[line(f"  {text}") for text in searches])]
    if judge is None:
        sections.append(Section(title="Judge", lines=[line("  none (judge.model): no LLM-graded metric, no call")]))
        return terminal(sections, width=width, color=False)
    # The judge would see every distinct result; of a sweep it is not known yet which it would see again.
    selected = [*grid_of(whole, pool).laid_out()[0].observations()]
    longest = dict[str, Observation]()
    for one in selected:
        if len(one.selection) > len(longest.setdefault(one.case.id, one).selection):
            longest[one.case.id] = one
    queries = sum(case.in_scope for case in cases)
    # Where the strong judge judges all there is nothing to correct, and the cheaper one judges none; but in rounds, of
    # which nobody knows before how many there are, it judges all.
    in_rounds = inputs.sweep is not None and config.judge.stop.margin is not None
    is_alone = not in_rounds and sample_size(judge.config.sample, queries) == queries
    asked = (judge,) if is_alone else judge.tiers
    for tier in asked if queries else ():
        prompts = tier.plan([*metrics], selected, [*longest.values()], config.seed)
        sections.append(_of_judge(tier.config, prompts, queries, config.judge.stop.margin))
    if inputs.held_out and not NEED_A_JUDGE.isdisjoint(config.objective.metrics):
        questions = judge.plan([*config.objective.metrics], [*longest.values()], [], config.seed)
        unseen = sample_size(judge.config.sample, sum(case.in_scope for case in inputs.held_out.cases))
        calls = len([*chain(*questions.values())]) / max(1, sample_size(judge.config.sample, queries)) * unseen
        besides = f"Not counted: about {calls:,.0f} calls to judge the recommended cell on {unseen:,} held-out queries."
        sections.append(Section(lines=[line(f"  {besides}")]))
    return terminal(sections, width=width, color=False)


def _searches(inputs: Inputs, metrics: Mapping[str, Metric], bench: Collaborators) -> Iterator[str]:
    """Yield what retrieval embeds and reranks, of a sweep by all variants together."""
    config, sweep, cases = inputs.config, inputs.sweep, len(inputs.golden.cases)
    # Of a sweep only what a constraint reads is measured of every variant, the rest of the chosen one.
    measured = [*(config.objective.constraints if sweep else metrics)]
    timed = WARMUP + config.latency.repeats * cases * len(config.latency.concurrency)
    latency = timed if needs(measured, "latency") else 0
    repeats = REPEATS * cases if needs(measured, "determinism") else 0
    calls = Counter[str]()
    for settings in (retriever.settings for retriever in bench.retrievers):
        if settings.python is not None:
            what = f"searches by python {settings.python}, whatever they call"
        else:
            local = " (local, free)" if settings.embedding.declared.hosted is False else ""
            what = f"query embeddings by {settings.embedding.model}{local}"
        calls[what] += cases + latency + repeats
        if settings.python is None and settings.reranks_by_model:
            what = f"rerank calls by {settings.cross_encoder.model}, each of up to {settings.candidates} chunks"
            calls[what] += cases + latency + repeats
    yield from (f"{count:,} {what}" for what, count in calls.items())
    each = "each way to retrieve: " if sweep else ""
    of = f"{cases:,} for candidates (this plan has made them), {latency:,} to measure latency"
    yield f"{each}{of}, {repeats:,} to repeat queries"
    if sweep and (needs(metrics, "latency") or needs(metrics, "determinism")):
        yield "the chosen way is timed and repeated besides, which these lines do not count"


def _of_judge(config: JudgeConfig, by_metric: Mapping[str, Prompts], queries: int, margin: float | None) -> Section:
    """Return what a judge would be asked, by metric, and what that costs."""
    rows, price = [], ""
    for metric, prompts in {**by_metric, "all": [*chain(*by_metric.values())]}.items():
        sent = [tokens for tokens in prompts if tokens is not None]
        tokens_in, tokens_out = sum(sent), len(sent) * USUAL_ANSWER
        counts = (len(prompts), len(prompts) - len(sent), len(sent), tokens_in, tokens_out)
        rows.append([Styled(f"  {metric}"), *(Styled(f"{count:,}") for count in counts)])
        price = money(cost(config.price, tokens_in, tokens_out), config.model)
    told = [f"Cost, if an answer has {USUAL_ANSWER} tokens: {price}."]
    if (drawn := sample_size(config.sample, queries)) < queries:
        first = ", whose first round this is" if config.sample == "auto" else ""
        told.append(f"Counted are {drawn:,} of {queries:,} in-scope queries: sample {config.sample}{first}.")
    if margin is not None:
        told.append(f"Judging ends earlier, once a cell is proved within {margin:g} of the best (judge.stop).")
    return Section(
        lines=[line(Styled("Judge", "bold"), f" {config.model}")],
        columns=[Column("  metric"), *numbers("questions", "cached", "calls", "tokens in", "tokens out")],
        rows=rows,
        below=[line(f"  {text}") for text in told],
    )
