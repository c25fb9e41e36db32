"""What the judge said, as JSON values for the report."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evals.judge.budget import Usage
from evals.judge.records import ChunkVerdict, Judging
from evals.judge.tasks import selected
from evals.judge.trust import Trust, view
from evals.records import Failure, Observation, Unscored


def judge_section(judging: Judging, trust: Trust | None) -> dict[str, Any]:
    """The judge of a run: model, what it cost, why it is incomplete, how far to trust it."""
    return {
        "model": judging.model,
        "usage": asdict(judging.usage),
        "incomplete": judging.incomplete,
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


def verdict_lines(row: Mapping[str, Any]) -> list[str]:
    """What the judge said of each returned chunk of a query's row, one line each, in rank order."""
    return [f"{hit['rank']}. {_verdict_text(hit['judge'])}" for hit in row["retrieved"] if hit["judge"]]


def claim_lines(row: Mapping[str, Any]) -> list[str]:
    """The statements of the reference answer in a query's row, one line each."""
    words = {1: "supported", 0: "not supported"}
    return [f"{words[claim['attributed']]}: {claim['statement']} ({claim['reason']})" for claim in row["claims"]]


def _verdict_text(said: Mapping[str, Any]) -> str:
    if "verdict" in said:
        return f"{'useful' if said['verdict'] else 'useless'}: {said['reason']}"
    return f"not judged: {said.get('failed') or said.get('unscored')}"


def spent(usage: Usage) -> str:
    """What judging has come to so far, in a few words."""
    parts = [f"{usage.calls:,} calls", f"{usage.hits:,} cached"]
    if usage.failed:
        parts.append(f"{usage.failed:,} failed")
    parts.append(f"{usage.tokens:,} tokens")
    if usage.usd is not None:
        parts.append(f"{usage.usd:.4f} USD")
    return ", ".join(parts)


def _failed(failure: Failure) -> dict[str, Any]:
    return {"failed": f"{failure.type}: {failure.message}"}
