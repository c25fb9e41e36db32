"""What the verdicts that were bought prove of the recommended cell. Pure."""

from math import isfinite

from evals.grid.evaluation import GridResult
from evals.grid.judging_rounds import NEXT, Proof
from evals.grid.objective import describe
from evals.report.model.grid import ProofSection


def proof_section(result: GridResult) -> ProofSection | None:
    """Return what is proved of the recommended cell; None unless judging was to end with a proof."""
    proof, cell = result.proof, result.chosen
    if proof is None:
        return None
    bound = None if cell is None or not isfinite(proof.within[cell]) else float(proof.within[cell])
    return ProofSection(
        statement=f"{_proved(result, proof, bound)}, {_bought(proof)}{_next(proof)}",
        margin=proof.margin,
        cell=cell,
        within=bound,
        remaining=int(proof.remaining.sum()),
        queries=int(proof.queries.max()),
        queries_in_all=proof.eligible,
        questions=proof.questions,
        questions_in_all=proof.all_questions,
        next_within=proof.next_within,
    )


def _proved(result: GridResult, proof: Proof, bound: float | None) -> str:
    if bound is None or result.chosen is None:
        return f"Not proved: too few queries were judged to compare {len(result.grid):,} cells"
    name = describe(result.grid, result.chosen)
    of = f"the best of {len(result.grid):,} cells by all verdicts on these queries (95%)"
    if bound == 0:
        return f"Proved: {name} is {of}"
    head = "Proved" if bound <= proof.margin else f"Not proved within {proof.margin:g}"
    return f"{head}: {name} is at most {bound:.3f} below {of}"


def _bought(proof: Proof) -> str:
    share = proof.questions / max(1, proof.all_questions)
    return (
        f"with {proof.questions:,} of {proof.all_questions:,} verdicts ({share:.0%}) on {int(proof.queries.max())} of "
        f"{proof.eligible} queries"
    )


def _next(proof: Proof) -> str:
    return "" if proof.next_within is None else f"; {NEXT} more would bring that to about {proof.next_within:.3f}"
