"""What the verdicts that were bought prove of the recommended cell. Pure."""

from math import isfinite

from evals.grid.evaluation import GridResult
from evals.grid.judging_rounds import NEXT, CellProof
from evals.grid.objective import describe
from evals.report.model.grid import ProofSection


def proof_section(result: GridResult) -> ProofSection | None:
    """Return the proof for the recommended cell; None without `judge.stop`."""
    proof, cell = result.proof, result.chosen
    if proof is None:
        return None
    # Cells that scored the same on every query are one.
    members = list(result.choice.recommended.members) if result.choice else []
    bounds = [bound for bound in proof.within[members].tolist() if isfinite(bound)]
    bound = min(bounds, default=None)
    return ProofSection(
        statement=f"{_proved(result, proof, bound)}, {_bought(proof)}{_next(proof)}",
        margin=proof.margin,
        cell=cell,
        within=bound,
        remaining=int(proof.remaining.sum()),
        queries=proof.queries,
        queries_in_all=proof.eligible,
        questions=proof.questions,
        questions_in_all=proof.all_questions,
        next_within=proof.next_within,
    )


def _proved(result: GridResult, proof: CellProof, bound: float | None) -> str:
    if bound is None or result.chosen is None:
        return f"Not proved: too few queries were judged to compare {len(result.grid):,} cells"
    name = describe(result.grid, result.chosen)
    of = f"the best of {len(result.grid):,} cells by all verdicts on these queries (95%)"
    if bound == 0:
        return f"Proved: {name} is {of}"
    head = "Proved" if bound <= proof.margin else f"Not proved within {proof.margin:g}"
    return f"{head}: {name} is at most {bound:.3f} below {of}"


def _bought(proof: CellProof) -> str:
    share = proof.questions / max(1, proof.all_questions)
    return (
        f"with {proof.questions:,} of {proof.all_questions:,} verdicts ({share:.0%}) on {proof.queries} of "
        f"{proof.eligible} queries"
    )


def _next(proof: CellProof) -> str:
    return "" if proof.next_within is None else f"; {NEXT} more would bring that to about {proof.next_within:.3f}"
