"""Moved to `tests.support.indexing`."""

from tests.support.indexing import *  # noqa: F403
