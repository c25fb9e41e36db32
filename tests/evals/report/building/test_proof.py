"""What judging in rounds proved, in a sentence, on every surface."""

from dataclasses import replace

import numpy as np
import pytest

from evals.grid.measure import Swept
from evals.report.building.grid import proof_section
from tests.support.judged_rounds import JudgedRounds


@pytest.fixture(scope="module")
def result(judged_world: JudgedRounds) -> Swept:
    with judged_world.server() as server:
        swept = judged_world.grid(server, stop={"margin": 0.05}).swept
        assert swept is not None
        return swept


def stated(result: Swept, **changes: object) -> str:
    assert result.proof is not None
    section = proof_section(replace(result, proof=replace(result.proof, **changes)))  # type: ignore[arg-type]
    assert section is not None
    return section.statement


def test_a_proof_names_the_recommended_cell_and_the_verdicts_it_took(result: Swept) -> None:
    section, proof, chosen = proof_section(result), result.proof, result.chosen
    assert section is not None and section.within is not None and proof is not None and chosen is not None
    assert section.within == pytest.approx(proof.within[chosen]) and section.within <= section.margin == 0.05
    assert section.statement.startswith("Proved: ") and f"is at most {section.within:.3f} below" in section.statement
    assert f"the best of {len(result.grid)} cells by all verdicts on these queries (95%)" in section.statement
    assert f"with {proof.questions} of {proof.all_questions} verdicts" in section.statement
    assert f"on {proof.queries} of 60 queries; 100 more would bring that to about" in section.statement
    assert (section.cell, section.remaining) == (chosen, int(proof.remaining.sum()))


def test_the_sentence_says_what_is_not_proved(result: Swept) -> None:
    assert result.proof is not None and result.choice is not None
    far, none = np.full(len(result.grid), 0.2), np.full(len(result.grid), np.nan)
    assert stated(result, within=far).startswith("Not proved within 0.05: ")
    assert stated(result, within=none).startswith("Not proved: too few queries were judged to compare 30 cells")
    assert "is the best of 30 cells" in stated(result, within=np.zeros(len(result.grid)))
    assert "more would" not in stated(result, next_within=None)


def test_without_rounds_nothing_is_said(result: Swept) -> None:
    assert proof_section(replace(result, proof=None)) is None
