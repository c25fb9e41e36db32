"""The judge against the labels, as counts."""

from evals.collect.observations import Failure
from evals.judge.trust.agreement import LabelledVerdict, agree
from evals.report.figures.agreement import confusion, judge_agreement

PAIRS = [(1, 1)] * 5 + [(0, 1)] * 2 + [(1, 0)] * 3 + [(0, 0)] * 11
ROWS = [
    LabelledVerdict(query_id=f"q{n % 4}", chunk_id=f"c{n}", verdict=verdict, label=label)  # type: ignore[arg-type]
    for n, (verdict, label) in enumerate(PAIRS)
]


def test_counts_verdicts_by_label() -> None:
    assert confusion(agree(ROWS, 0)) == ((5, 2), (3, 11))


def test_failures_are_no_verdicts() -> None:
    lost = LabelledVerdict(query_id="q9", chunk_id="lost", verdict=Failure(type="Timeout", message="late"), label=1)
    assert confusion(agree([*ROWS, lost], 0)) == ((5, 2), (3, 11))


def test_the_figure_says_counts_and_shares_of_each_label() -> None:
    figure = judge_agreement(agree(ROWS, 0))
    assert figure is not None
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["5\n71.4%", "2\n28.6%", "3\n21.4%", "11\n78.6%"]
    assert axes.get_title().startswith("Judge and labels, 21 verdicts, Cohen's kappa 0.4")


def test_without_verdicts_there_is_none() -> None:
    assert judge_agreement(None) is None
    assert judge_agreement(agree([], 0)) is None
