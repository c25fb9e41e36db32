"""Moved to `tests.support.judging`."""

from tests.support.judging import *  # noqa: F403
