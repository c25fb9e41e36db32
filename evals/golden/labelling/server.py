"""The local page on which people label: on this machine alone, with a token in its address."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from statistics import median
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from evals.errors import DatasetError
from evals.golden.evidence import normalise
from evals.golden.labelling.annotator_agreement import agreement
from evals.golden.labelling.labels import MOST_GRADE, Label, LabelFile, Standing, asked, standing
from evals.golden.labelling.pool import PooledCase
from retrievers.records import Chunk

MOST_NOTE = 2_000
# Pauses beyond this are no work.
LONGEST_S = 300.0


class Answer(BaseModel):
    """What the page sends for a chunk: a grade, or None to skip it."""

    model_config = ConfigDict(extra="forbid")

    case: str
    chunk: str
    annotator: str = Field(min_length=1, max_length=80)
    grade: int | None = Field(None, ge=0, le=MOST_GRADE)
    quotes: tuple[str, ...] = ()
    note: str = Field("", max_length=MOST_NOTE)


@dataclass(frozen=True, kw_only=True)
class Work:
    """Inputs of the page.

    Attributes:
        pooled: The pool.
        labels: File of the labels.
        names: Systems of the pool.
        depth: Depth of the pool.
        judge: Verdicts of a judge for the agreement at the end, by case and chunk id; they are not shown before.
    """

    pooled: Sequence[PooledCase]
    labels: LabelFile
    names: tuple[str, ...]
    depth: int
    judge: Mapping[tuple[str, str], int]


def make_app(work: Work, token: str) -> Starlette:
    """Return the page and its three calls; each needs the token, and a host name of this machine."""

    async def page(request: Request) -> Response:
        _check(request.query_params.get("token"), token)
        nonce = secrets.token_urlsafe(12)
        text = files("evals.golden.labelling").joinpath("page.html").read_text(encoding="utf-8")
        policy = f"default-src 'none'; connect-src 'self'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        headers = {
            "Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        return HTMLResponse(text.replace("NONCE", nonce), headers=headers)

    async def state(request: Request) -> Response:
        _check(request.headers.get("x-token"), token)
        return await _answered(lambda: _state(work, request.query_params.get("annotator", "").strip()))

    async def label(request: Request) -> Response:
        _check(request.headers.get("x-token"), token)
        body = await request.body()
        return await _answered(lambda: _label(work, Answer.model_validate_json(body)))

    async def undo(request: Request) -> Response:
        _check(request.headers.get("x-token"), token)
        return await _answered(lambda: _undo(work, request.query_params.get("annotator", "").strip()))

    return Starlette(
        routes=[
            Route("/", page),
            Route("/state", state),
            Route("/label", label, methods=["POST"]),
            Route("/undo", undo, methods=["POST"]),
        ],
        # Another page may let its own host name point here; it gets no answer.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )


def _check(given: str | None, token: str) -> None:
    if not secrets.compare_digest((given or "").encode(), token.encode()):
        raise HTTPException(403, "the token is missing or wrong: open the address that the terminal shows")


async def _answered(call: Callable[[], dict[str, Any]]) -> Response:
    """Run a call that reads or writes the file of labels; its faults are the page's to show."""
    try:
        return JSONResponse(await run_in_threadpool(call))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        return JSONResponse({"error": "; ".join(f"{fault['loc']}: {fault['msg']}" for fault in faults)}, 422)
    except DatasetError as error:
        return JSONResponse({"error": str(error)}, 409)


def _state(work: Work, annotator: str) -> dict[str, Any]:
    labels = work.labels.labels()
    saved = standing(labels)
    current = work_state(work.pooled, labels, saved, annotator)
    result: dict[str, Any] = {
        "done": current.done,
        "skipped": current.skipped,
        "total": current.total,
        "seconds_left": current.seconds_left,
        "annotators": sorted({label.annotator for label in saved.values()}),
    }
    if current.next is None:
        return result | {"agreement": agreement(saved, work.judge)}
    entry, chunk = current.next
    return result | {
        "case": {
            "id": entry.case.id,
            "query": entry.case.query,
            "reference_answer": entry.case.reference_answer,
            "in_scope": entry.case.in_scope,
        },
        "chunk": {"id": chunk.chunk_id, "text": chunk.text, "breadcrumb": chunk.breadcrumb, "source": chunk.source},
        "place": current.place,
        "of_case": len(entry.chunks),
    }


def _label(work: Work, answer: Answer) -> dict[str, Any]:
    entry, chunk = _pair(work, answer.case, answer.chunk)
    text = normalise(chunk.text)
    for quote in answer.quotes:
        if not quote.strip() or normalise(quote) not in text:
            raise DatasetError(f"the quote {quote[:60]!r} is not in the chunk")
    label = Label(
        case=answer.case,
        asked=asked(entry.case),
        chunk=answer.chunk,
        annotator=answer.annotator,
        grade=answer.grade,
        quotes=answer.quotes,
        note=answer.note.strip(),
        chunk_text=chunk.text,
        source_url=chunk.source_url,
        heading=chunk.heading,
        at=datetime.now(UTC),
        pool=work.names,
        depth=work.depth,
    )
    work.labels.append(label)
    return _state(work, answer.annotator)


def _undo(work: Work, annotator: str) -> dict[str, Any]:
    last = last_label(standing(work.labels.labels()), annotator)
    if last is None:
        raise DatasetError("there is nothing to undo")
    work.labels.append(last.model_copy(update={"undone": True, "at": datetime.now(UTC)}))
    return _state(work, annotator) | {"undone": last.model_dump(mode="json", include={"grade", "quotes", "note"})}


def _pair(work: Work, case_id: str, chunk_id: str) -> tuple[PooledCase, Chunk]:
    for entry in work.pooled:
        for chunk in entry.chunks:
            if (entry.case.id, chunk.chunk_id) == (case_id, chunk_id):
                return entry, chunk
    raise DatasetError(f"case {case_id!r} with chunk {chunk_id!r} is not in the pool")


@dataclass(frozen=True, kw_only=True)
class WorkState:
    """State of an annotator's work.

    Attributes:
        done: Number of labels that count, skipped ones among them.
        skipped: Number of skipped ones.
        total: Number of pairs of query and chunk in the pool.
        seconds_left: Expected time of the rest, by the median time of a label; None before the third.
        next: The next query and chunk, None at the end.
        place: Place of that chunk among those of its query, from 1.
    """

    done: int
    skipped: int
    total: int
    seconds_left: float | None
    next: tuple[PooledCase, Chunk] | None
    place: int


def work_state(pooled: Sequence[PooledCase], labels: Sequence[Label], kept: Standing, annotator: str) -> WorkState:
    """Return the state of an annotator's work.

    Args:
        pooled: The pool, in the order of the work.
        labels: All lines.
        kept: The labels that count.
        annotator: Name.
    """
    pairs = [(entry, chunk, rank) for entry in pooled for rank, chunk in enumerate(entry.chunks, 1)]
    mine = [kept.get((annotator, entry.case.id, chunk.chunk_id)) for entry, chunk, _ in pairs]
    done = sum(label is not None for label in mine)
    following = next((pair for pair, label in zip(pairs, mine, strict=True) if label is None), None)
    pace = _pace([label for label in labels if label.annotator == annotator])
    return WorkState(
        done=done,
        skipped=sum(label is not None and label.grade is None for label in mine),
        total=len(pairs),
        seconds_left=None if pace is None else pace * (len(pairs) - done),
        next=None if following is None else following[:2],
        place=0 if following is None else following[2],
    )


def last_label(kept: Standing, annotator: str) -> Label | None:
    """Return the label that an annotator gave last and that counts, None without any."""
    return next((label for key, label in reversed(list(kept.items())) if key[0] == annotator), None)


def _pace(labels: Sequence[Label]) -> float | None:
    """Return the median time between two labels in seconds, pauses left out; None for fewer than three labels."""
    gaps = [(after.at - before.at).total_seconds() for before, after in pairwise(labels)]
    gaps = [gap for gap in gaps if 0 <= gap <= LONGEST_S]
    return median(gaps) if len(gaps) > 1 else None
