"""Moved to `tests.support.observed`."""

from tests.support.observed import *  # noqa: F403
