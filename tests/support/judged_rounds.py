"""Moved to `tests.support.judged_experiment`."""

from tests.support.judged_experiment import *  # noqa: F403
