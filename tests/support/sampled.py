"""Moved to `tests.support.results`."""

from tests.support.results import *  # noqa: F403
