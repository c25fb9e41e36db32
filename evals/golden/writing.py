"""`golden synthesize`: a chat model writes queries to passages. Queries that pass every check are kept.

Each query takes two calls: one writes it, one judges it. All answers are in the verdict store, so that an interrupted
synthesis continues where it stopped.
"""

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from random import Random
from textwrap import shorten
from typing import Any, TypeAlias

from evals.cases.relevance import normalise
from evals.collect.observations import Unscored
from evals.config.files import experiment_file, named_folders, write
from evals.config.judge import JudgeConfig, ModelSettings
from evals.config.telemetry import silence
from evals.errors import DatasetError
from evals.golden.check import MOST_COPIED, copied_share, near_pairs
from evals.golden.chunks import (
    SPLITS,
    Passages,
    check_new,
    evidence_of,
    json_lines,
    next_check,
    open_passages,
    say,
    section_of,
    spread,
)
from evals.golden.prompts import (
    Answering,
    DraftCase,
    DraftQuery,
    QueryType,
    Review,
    parse_counts,
    passages_text,
    prompts,
    query_types,
    write_prompt,
)
from evals.judge.asking import USUAL_ANSWER, Asker, UnansweredError
from evals.judge.budget import cost, money
from evals.judge.judge import Judge
from evals.report.sections import spent
from retrievers.config.layers import Layer, build, environment, file_layer, flag_layer
from retrievers.embedding.tokens import count_tokens
from retrievers.records import Chunk
from retrievers.terminal.command import EXIT_INCOMPLETE, print_error, progress_bar

# Number of chunks nearest to an out-of-scope query. None of them may answer it.
NEAREST = 10
# Number of chunks nearest to a passage. The second passage of a comparison is one of them.
NEIGHBOURS = 20
# Limits of a query, which people type into a search field.
MOST_WORDS = 60
MOST_CHARACTERS = 400
# Fewest characters of a quote. A shorter one stands in many places.
LEAST_QUOTE = 15
# Tokens of a usual question without its passages.
USUAL_QUESTION = 400
# Grade of a passage that answers a query.
GRADE = 3
# Most characters of an example.
LONGEST = 100
Objection: TypeAlias = tuple[str, str]
"""Reason why a query cannot be used, and the details."""
NO_QUERY = "the query is empty, or too long for a search field"
UNSUPPORTED = "the reference answer does not follow from the quotes"
NO_QUOTE = "a quote does not stand in the passage word for word"
NOT_STANDALONE = "the query cannot be understood without the passage"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A query to be written, and its outcome.

    Attributes:
        id: Id of the case.
        type_name: Key of `query_types`.
        passages: Chunks that the query is about.
        split: Split of the pages of all passages.
        turn: Number of earlier drafts of this type with the same first passage.
        row: The case as a row of a golden file; empty before it is written.
        objection: Reason why the query is not kept, and the details; None if there is no objection.
        unasked: Reason why the model was not asked, such as a spent budget; empty if it was.
    """

    id: str
    type_name: str
    passages: tuple[Chunk, ...]
    split: str
    turn: int
    row: Mapping[str, Any] = field(default_factory=dict)
    objection: Objection | None = None
    unasked: str = ""

    @property
    def kind(self) -> QueryType:
        """The type of the query."""
        return query_types()[self.type_name]

    @property
    def kept(self) -> bool:
        """True if the query passed every check."""
        return bool(self.row) and self.objection is None


def synthesize(namespace: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        DatasetError: There is no model, the file exists, or no query passed its checks.
    """
    silence(hub=False)
    counts = parse_counts(namespace.per_type)
    if not namespace.plan:
        check_new(namespace.out, force=namespace.force)
    env = environment(os.environ)
    model = _model(namespace, env)
    if model.model is None:
        example = "--judge.model, such as cohere:command-a-03-2025 (docs/judge.md lists the providers)"
        raise DatasetError(f"golden synthesize needs a chat model that writes and judges: {example}")
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bar(shown=not namespace.quiet))
        passages = stack.enter_context(open_passages(namespace))
        planned = plan(model, passages, counts)
        if namespace.plan:
            return say(namespace, planned)
        judge = stack.enter_context(closing(Judge.open(model, env)))
        drafts = write_drafts(judge, passages, counts, namespace.seed, partial(bar, "writing"))
    say(namespace, [*summary(drafts, counts), f"  {spent(judge.engine.account.usage)}"])
    if unasked := next((draft.unasked for draft in drafts if draft.unasked), ""):
        stored = "all answers are in the verdict store, and the same command continues from here"
        print_error(f"incomplete: {unasked}; {namespace.out} is not written ({stored})")
        return EXIT_INCOMPLETE
    rows = [draft.row for draft in drafts if draft.kept]
    if not rows:
        raise DatasetError(f"{namespace.out}: not written: none of the {len(drafts)} queries passed its checks")
    write(namespace.out, json_lines(rows))
    head = f"{namespace.out}: {len(rows)} cases to {len(passages.chunks)} chunks of {passages.origin}"
    last = f"  read some of them before you trust them; then: {next_check(namespace.out, namespace)}"
    return say(namespace, [head, last])


def _model(namespace: argparse.Namespace, env: Mapping[str, str]) -> JudgeConfig:
    """Return the settings of the chat model, from the experiment file and the flags: those of the first judge."""
    layers = []
    if namespace.config:
        experiment = file_layer(experiment_file(namespace.config), ModelSettings, named_folders(env))
        judge = {name: value for name, value in experiment.values.items() if name == "judge"}
        layers.append(Layer(label=experiment.label, values=judge))
    return build(ModelSettings, [*layers, flag_layer(namespace, ModelSettings)]).judge.by_tier[0]


def plan(model: JudgeConfig, passages: Passages, counts: Mapping[str, int]) -> list[str]:
    """Return the calls, tokens and price of writing. If every query passes its checks, each takes two calls."""
    calls = 2 * sum(counts.values())
    kinds = {name: query_types()[name] for name in counts}
    read = sum(counts[name] * (kind.passages + NEAREST * (not kind.in_scope)) for name, kind in kinds.items())
    mean = sum(count_tokens(chunk.text) for chunk in passages.chunks) // len(passages.chunks)
    tokens_in = calls * USUAL_QUESTION + read * mean
    tokens_out = calls * USUAL_ANSWER
    price = money(cost(model.price, tokens_in, tokens_out), model.model)
    return [
        f"{calls // 2} queries to {len(passages.chunks)} chunks of {passages.origin}: {calls} calls of {model.model}",
        f"about {tokens_in:,} tokens in and {tokens_out:,} out, {price}",
        "answers in the verdict store are free",
    ]


# Drawing passages


def make_drafts(passages: Passages, counts: Mapping[str, int], seed: int) -> list[Draft]:
    """Return drafts of each type.

    All pages, and all sections of a page, get equal shares of the drafts. A page is used for one split alone. A higher
    count of one type changes no other draft.

    Args:
        passages: The collection.
        counts: Number of drafts of each type.
        seed: Seed of the choice of passages.
    """
    order = spread(passages.chunks, seed)
    names = list(query_types())
    splits = split_pages(order, seed)
    usable = {chunk.chunk_id for chunk in order}

    def draft(name: str, number: int) -> Draft:
        # Each type begins at another passage, so that few queries of different types ask the same.
        chunk = order[(number + names.index(name) * len(order) // len(names)) % len(order)]
        split = splits[chunk.page]
        further = query_types()[name].passages - 1
        others = (
            other
            for other in (passages.alike(chunk, NEIGHBOURS) if further else ())
            if other.chunk_id in usable and section_of(other) != section_of(chunk) and splits[other.page] == split
        )
        turn = number if name == "general" else number // len(order)
        shown = (chunk, *islice(others, further))
        return Draft(id=f"{name}-{number + 1:03}", type_name=name, passages=shown, split=split, turn=turn)

    return [draft(name, number) for name, count in counts.items() for number in range(count)]


def split_pages(chunks: Sequence[Chunk], seed: int) -> dict[str, str]:
    """Return the split of each page. Both splits have equally many pages, at most one more."""
    pages = sorted({chunk.page for chunk in chunks})
    Random(seed).shuffle(pages)
    return {page: SPLITS[number % 2] for number, page in enumerate(pages)}


# Writing and checking


def write_drafts(
    judge: Judge, passages: Passages, counts: Mapping[str, int], seed: int, progress: Callable[[int, int], None]
) -> list[Draft]:
    """Write and check queries.

    Args:
        judge: The chat model that writes and judges, with its store and budget.
        passages: The collection.
        counts: Number of queries to write, by type.
        seed: Seed of the choice of passages.
        progress: Called with the number of finished queries, and the number of all.

    Raises:
        JudgeError: The model refused the first request for a reason that holds for all requests.
    """
    turns = asyncio.Semaphore(2 * judge.config.max_concurrency)
    wanted = make_drafts(passages, counts, seed)
    finished = 0

    async def in_turn(draft: Draft) -> Draft:
        nonlocal finished
        async with turns:
            draft = await _write(draft, judge.engine, passages)
        finished += 1
        progress(finished, len(wanted))
        return draft

    async def write_all() -> list[Draft]:
        written = await asyncio.gather(*map(in_turn, wanted))
        if judge.engine.fatal:
            raise judge.engine.fatal
        return written

    return without_repeats(judge.run(write_all), passages)


async def _write(draft: Draft, asker: Asker, passages: Passages) -> Draft:
    """Have a query written, and check it."""
    needed = draft.kind.passages
    if len(draft.passages) < needed:
        return replace(draft, objection=("the collection has no second section on the subject in the same split", ""))
    try:
        schema = DraftCase if draft.kind.in_scope else DraftQuery
        answer = await asker.ask(write_prompt(draft.type_name, draft.passages, draft.turn), schema)
        objection = text_objection(answer, draft.passages, needed) or await _ask_objection(answer, asker, passages)
    except UnansweredError as error:
        if isinstance(error.outcome, Unscored):
            return replace(draft, unasked=error.outcome.reason)
        kind, _, message = error.outcome.failed.partition(": ")
        if kind not in ("Malformed", "Prompt"):  # a server that is down says nothing of the query
            return replace(draft, unasked=message)
        return replace(draft, objection=("the model gave no usable answer", message))
    return replace(draft, row=_row(draft, answer), objection=objection)


def text_objection(answer: DraftQuery, passages: Sequence[Chunk], quoted: int) -> Objection | None:
    """Return the first objection to a query that its text shows, without a model; None if there is none.

    Args:
        answer: The query; if it is in scope, with its answer and quotes.
        passages: Passages that the model was shown.
        quoted: Number of passages that quotes must come from.
    """
    query = answer.query
    if not query.strip() or len(query.split()) > MOST_WORDS or len(query) > MOST_CHARACTERS:
        return (NO_QUERY, f"{len(query.split())} words, {len(query)} characters")
    share = max(copied_share(query, chunk.text) for chunk in passages)
    if share > MOST_COPIED:
        return ("the query copies the passage", f"{share:.0%} of its stretches of four words stand in it")
    if not isinstance(answer, DraftCase):
        return None
    if not answer.reference_answer.strip():
        return (UNSUPPORTED, "there is none")
    sources = set()
    for quote in answer.quotes:
        chunk = holder(quote, passages)
        if chunk is None or len(normalise(quote)) < LEAST_QUOTE:
            return (NO_QUOTE, repr(quote[:80]))
        sources.add(chunk.chunk_id)
    return None if len(sources) >= quoted else (NO_QUOTE, f"quotes of {quoted} passages are needed")


def holder(quote: str, passages: Sequence[Chunk]) -> Chunk | None:
    """Return the passage that holds a quote word for word. White space is ignored."""
    return next((chunk for chunk in passages if normalise(quote) in normalise(chunk.text)), None)


async def _ask_objection(answer: DraftQuery, asker: Asker, passages: Passages) -> Objection | None:
    """Ask the model for an objection to a query; None if it has none."""
    if isinstance(answer, DraftCase):
        quotes = "\n".join(f"<quote>{quote}</quote>" for quote in answer.quotes)
        prompt = prompts()["review"].format(query=answer.query, answer=answer.reference_answer, quotes=quotes)
        review = await asker.ask(prompt, Review)
        if not review.follows:
            return (UNSUPPORTED, review.reason.strip())
        return None if review.standalone else (NOT_STANDALONE, review.reason.strip())
    # Embedding and search would block the event loop.
    nearest = await asyncio.to_thread(passages.nearest, answer.query, NEAREST)
    prompt = prompts()["search"].format(query=answer.query, passages=passages_text(nearest))
    search = await asker.ask(prompt, Answering)
    if not search.standalone:
        return (NOT_STANDALONE, search.reason.strip())
    # A number without a passage is a miscount of one that answers.
    answering = [nearest[n - 1].source if 1 <= n <= len(nearest) else f"passage {n}" for n in search.answering]
    return ("a passage of the collection answers the query", answering[0]) if answering else None


def _row(draft: Draft, answer: DraftQuery) -> dict[str, Any]:
    row: dict[str, Any] = {"id": draft.id, "query": answer.query.strip()}
    if isinstance(answer, DraftCase):
        holders = ((quote.strip(), holder(quote, draft.passages)) for quote in dict.fromkeys(answer.quotes))
        evidence = [{**evidence_of(chunk, quote), "grade": GRADE} for quote, chunk in holders if chunk]
        row |= {"reference_answer": answer.reference_answer.strip(), "evidence": evidence}
    scope = {"in_scope": draft.kind.in_scope, "query_type": draft.type_name}
    return row | scope | {"tags": ["synthetic"], "split": draft.split}


def without_repeats(written: Sequence[Draft], passages: Passages) -> list[Draft]:
    """Object to each query that nearly repeats an earlier one."""
    kept = [draft for draft in written if draft.kept]
    if not kept:
        return [*written]
    vectors = passages.embed([draft.row["query"] for draft in kept])
    repeats: dict[str, Objection] = {}
    for later, earlier in sorted((j, i) for i, j, _ in near_pairs(vectors)):
        if kept[earlier].id not in repeats:
            reason = "the query nearly repeats another one", repr(kept[earlier].row["query"])
            repeats.setdefault(kept[later].id, reason)
    return [replace(draft, objection=repeats.get(draft.id, draft.objection)) for draft in written]


def summary(written: Sequence[Draft], counts: Mapping[str, int]) -> list[str]:
    """Return the lines to print: queries by type, objections with an example of each, and splits."""
    kept = Counter(draft.type_name for draft in written if draft.kept)
    dropped = Counter(draft.type_name for draft in written if draft.objection)
    splits = Counter(draft.split for draft in written if draft.kept)
    lines = [f"  {name}: {kept[name]} of {n} kept, {dropped[name]} dropped" for name, n in counts.items() if n]
    reasons = Counter(draft.objection[0] for draft in written if draft.objection)
    for reason, count in reasons.most_common():
        examples = (f"{draft.id}: {o[1]}" for draft in written if (o := draft.objection) and o[0] == reason)
        example = shorten(next(examples).rstrip(": "), LONGEST, placeholder=" …")
        lines.append(f"  dropped {count}: {reason} ({example})")
    return [*lines, f"  splits by page: {', '.join(f'{s}: {n}' for s, n in sorted(splits.items())) or 'none'}"]
