import numpy as np
import pytest

from evals.stats.corrected_mean import corrected_means
from evals.stats.power_tuning import power_tuned


def test_a_mean_by_hand() -> None:
    # λ = Cov/((1 + 4/4) Var) = (1/2 − 3/4 · 1/2)/(2 · 2/7), the variance over all eight
    y, f, others = np.array([1.0, 1, 0, 1]), np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 1])
    mean, weight = power_tuned(y, f, others)
    assert (float(mean), float(weight)) == pytest.approx((0.75, 0.125 / (2 * 2 / 7)))


def test_a_sample_among_all_has_the_same_mean() -> None:
    rng = np.random.default_rng(0)
    proxy = rng.random(400)
    judged, sampled = proxy + rng.normal(0, 0.1, 400), np.arange(400) < 100
    apart = power_tuned(judged[sampled], proxy[sampled], proxy[~sampled])[0]
    within = corrected_means(judged[:, None], proxy[:, None], sampled)[0][0]
    assert float(apart) == pytest.approx(within, abs=0.005)
    assert abs(float(judged[sampled].mean()) - within) > 0.005
