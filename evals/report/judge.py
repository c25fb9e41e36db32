"""What the judge said, as JSON values for the report."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evals.collect.observations import Failure, Observation, Unscored
from evals.judge.ask.budget import Usage
from evals.judge.tasks import RECALL, selected
from evals.judge.trust.audit import describe, error_rate
from evals.judge.trust.trust import Trust, view
from evals.judge.verdicts import Bisected, ChunkVerdict, Judging


def judge_section(judging: Judging, trust: Trust | None) -> dict[str, Any]:
    """The judge of a run: model, what it cost, why it is incomplete, how far to trust it."""
    return {
        "model": judging.model,
        "usage": asdict(judging.usage),
        "incomplete": judging.incomplete,
        "bisection": _bisection(judging.bisected) if judging.bisected else None,
        "trust": view(trust) if trust else None,
    }


def chunk_verdict(judging: Judging, case_id: str, chunk_id: str) -> dict[str, Any] | None:
    """The verdict on a chunk with its reason, or why there is none; None when it was not asked for."""
    found = judging.verdicts.get((case_id, chunk_id))
    if found is None:
        return None
    if isinstance(found, ChunkVerdict):
        return asdict(found)
    return {"unscored": found.reason} if isinstance(found, Unscored) else _failed(found)


def claims(judging: Judging, observation: Observation) -> list[dict[str, Any]]:
    """The statements of the reference answer, each with whether the returned chunks support it, and why."""
    return [asdict(claim) for claim in judging.claims.get((observation.case.id, selected(observation)), ())]


def chunk_claims(judging: Judging, case_id: str, chunk_id: str) -> list[dict[str, Any]] | dict[str, Any] | None:
    """The sentences of the reference answer as the judge sees them with one chunk alone; None when not asked for."""
    found = judging.supports.get((case_id, chunk_id))
    if found is None:
        return None
    if isinstance(found, Unscored):
        return {"unscored": found.reason}
    return _failed(found) if isinstance(found, Failure) else [asdict(claim) for claim in found]


def judging_lines(judging: Judging) -> list[str]:
    """The judge of a run in a few lines: what it cost, what is missing, what was not asked for."""
    lines = [f"{judging.model}: {spent(judging.usage)}"]
    if judging.incomplete:
        lines.append(f"Not everything was judged: {judging.incomplete}")
    if judging.bisected:
        lines.append(describe(judging.bisected))
    return lines


def verdict_lines(row: Mapping[str, Any]) -> list[str]:
    """What the judge said of each returned chunk of a query's row, one line each, in rank order."""
    return [f"{hit['rank']}. {_verdict_text(hit['judge'])}" for hit in row["retrieved"] if hit["judge"]]


def claim_lines(row: Mapping[str, Any]) -> list[str]:
    """The statements of the reference answer in a query's row, one line each."""
    return [_claim_text(claim) for claim in row["claims"]]


def chunk_claim_lines(row: Mapping[str, Any]) -> list[str]:
    """What the judge said of the reference's sentences with each returned chunk alone, a line each, in rank order."""
    lines: list[str] = []
    for hit in row["retrieved"]:
        found = hit["claims"]
        said = [_claim_text(claim) for claim in found] if isinstance(found, list) else [_missing_text(found)]
        lines += [f"{hit['rank']}. {one}" for one in said if found is not None]
    return lines


def _verdict_text(said: Mapping[str, Any]) -> str:
    if "verdict" in said:
        return f"{'useful' if said['verdict'] else 'useless'}: {said['reason']}"
    return _missing_text(said)


def _claim_text(claim: Mapping[str, Any]) -> str:
    return f"{'supported' if claim['attributed'] else 'not supported'}: {claim['statement']} ({claim['reason']})"


def _missing_text(said: Mapping[str, Any] | None) -> str:
    return f"not judged: {said.get('failed') or said.get('unscored')}" if said else ""


def _bisection(bisected: Bisected) -> dict[str, Any]:
    found = error_rate(bisected)
    return {
        "metric": RECALL,
        "selections": bisected.selections,
        "skipped": len(bisected.implied),
        "calls_saved": bisected.saved,
        "audited": len(bisected.audited),
        "compared": found.n,
        "differing": sum(bisected.compared),
        "error_rate": found.value,
        "ci_low": found.interval.low,
        "ci_high": found.interval.high,
        "note": found.note,
    }


def spent(usage: Usage) -> str:
    """What judging has come to so far, in a few words."""
    parts = [f"{usage.calls:,} calls", f"{usage.hits:,} cached"]
    if usage.failed:
        parts.append(f"{usage.failed:,} failed")
    if usage.unanswered:
        parts.append(f"{usage.unanswered:,} without an answer, of unknown cost")
    parts.append(f"{usage.tokens:,} tokens")
    if usage.usd is not None:
        parts.append(f"{usage.usd:.4f} USD")
    return ", ".join(parts)


def _failed(failure: Failure) -> dict[str, Any]:
    return {"failed": f"{failure.type}: {failure.message}"}
