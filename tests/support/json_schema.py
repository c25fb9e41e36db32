"""Moved to `tests.support.reports`."""

from tests.support.reports import *  # noqa: F403
