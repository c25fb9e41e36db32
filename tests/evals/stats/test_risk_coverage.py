import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.risk_coverage import RiskAt, area_under, risk_coverage


def test_by_hand() -> None:
    """0.9 is right, 0.5 is one right and one wrong, 0.2 is wrong."""
    found = risk_coverage([0.5, 0.9, 0.2, 0.5], [1.0, 0.0, 1.0, 0.0])
    assert found == (
        RiskAt(threshold=0.9, coverage=0.25, risk=0.0),
        RiskAt(threshold=0.5, coverage=0.75, risk=1 / 3),
        RiskAt(threshold=0.2, coverage=1.0, risk=0.5),
    )
    assert area_under(found) == pytest.approx(0.25 * 0 + 0.5 / 3 + 0.25 * 0.5)


@given(rows=st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.4, 0.8]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1))
def test_every_point_is_the_mean_loss_of_who_reaches_it(rows: list[tuple[float, float]]) -> None:
    scores, losses = [score for score, _ in rows], [loss for _, loss in rows]
    found = risk_coverage(scores, losses)
    assert [point.threshold for point in found] == sorted(set(scores), reverse=True)
    for point in found:
        reached = [loss for score, loss in rows if score >= point.threshold]
        assert point.coverage == pytest.approx(len(reached) / len(rows))
        assert point.risk == pytest.approx(sum(reached) / len(reached))
    assert found[-1].coverage == 1.0
    area = area_under(found)
    assert area is not None and 0 <= area <= 1


def test_nothing_has_no_curve() -> None:
    assert risk_coverage([], []) == ()
    assert area_under(()) is None
