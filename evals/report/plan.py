"""A plan for a terminal: what a run would embed and ask, before it does."""

from collections.abc import Iterator, Sequence

from evals.judge.call_estimate import SECONDS_PER_CALL, JudgePlan
from evals.report.section import Cell, Column, Section, line, terminal
from retrievers.config import RetrieverConfig


def render_plan(
    plans: Sequence[JudgePlan], retrieval: Sequence[str], *, held_out: int | None = None, width: int, color: bool
) -> str:
    """Return the plan as text.

    Args:
        plans: Plan of the judge, of a cascade one of each judge, the cheapest first; none without a judge.
        retrieval: Lines on what retrieval itself calls.
        held_out: The most calls that measuring the chosen cell on held-out queries takes, None where it takes none.
        width: Width of the terminal, in columns.
        color: Use colors.
    """
    sections = [Section(title="Retrieval", lines=[line(f"  {text}") for text in retrieval])]
    if not plans:
        sections.append(Section(title="Judge", lines=[line("  none (judge.model): no LLM-graded metric, no call")]))
    sections += [_of_judge(plan, plans, held_out if plan is plans[-1] else None) for plan in plans]
    if len(plans) > 1:
        calls, usd = sum(plan.total.calls for plan in plans), [plan.usd for plan in plans if plan.usd is not None]
        money = f", about {sum(usd):,.2f} USD" if len(usd) == len(plans) else ""
        sections.append(Section(lines=[line(f"All judges: {calls:,} calls{money}")]))
    return terminal(sections, width=width, color=color)


def _of_judge(plan: JudgePlan, plans: Sequence[JudgePlan], held_out: int | None) -> Section:
    """Return what a judge would be asked, by metric, and what that costs."""
    queries = f", {plan.drawn:,} queries" if len(plans) > 1 else ""
    below = [line(f"  {text}") for text in _remarks(plan, held_out)]
    if plan.stopped:
        below.append(line(Cell(plan.stopped, f"  The run would stop early: {plan.stopped}.", "fair")))
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
    most = plan.samples[-1] if plan.samples else None
    if most is None or plan.drawn == most.queries:
        return
    counted = f"{plan.drawn:,} of {most.queries:,} in-scope queries"
    price = "" if most.usd is None else f", about {most.usd:,.2f} USD"
    if plan.grows:
        yield (
            f"judge.sample auto judges at least its first round of {counted}, which the table counts, and at most all: "
            f"{most.calls:,} calls{price}."
        )
    else:
        yield f"The table counts the {counted} of judge.sample; all would take {most.calls:,} calls{price}."


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
