"""What judging in rounds proved, in a sentence, on every surface."""

from dataclasses import replace

import numpy as np
import pytest

from evals.grid.measure import Swept
from evals.report.build import grid_section, proved
from tests.support.judged_rounds import JudgedRounds


@pytest.fixture(scope="module")
def result(judged_world: JudgedRounds) -> Swept:
    with judged_world.server() as server:
        swept = judged_world.grid(server, stop={"margin": 0.05}).swept
        assert swept is not None
        return swept


def stated(result: Swept, **changes: object) -> str:
    assert result.proof is not None
    return proved(result, replace(result.proof, **changes))  # type: ignore[arg-type]


def test_a_proof_names_the_recommended_cell_and_the_verdicts_it_took(result: Swept) -> None:
    text, proof, chosen = grid_section(result).proof, result.proof, result.chosen
    assert proof is not None and chosen is not None
    assert text.startswith("Proved: ") and f"is at most {proof.within[chosen]:.3f} below" in text
    assert (
        f"the best of {len(result.grid)} cells by all verdicts of this judge, asked once, on these queries (95%)"
        in text
    )
    assert f"with {proof.questions} of {proof.all_questions} verdicts" in text
    assert text.endswith(f"on {proof.queries} of 60 queries")


def test_the_sentence_says_what_is_not_proved(result: Swept) -> None:
    assert result.proof is not None and result.choice is not None
    far, none = np.full(len(result.grid), 0.2), np.full(len(result.grid), np.nan)
    assert stated(result, within=far).startswith("Not proved within 0.05: ")
    assert stated(result, within=none).startswith("Not proved: too few queries were judged to compare 30 cells")
    assert "is the best of 30 cells" in stated(result, within=np.zeros(len(result.grid)))


def test_without_rounds_nothing_is_said(result: Swept) -> None:
    assert grid_section(replace(result, proof=None)).proof == ""
