"""Moved to `tests.support.judged`."""

from tests.support.judged import *  # noqa: F403
