"""Moved to `tests.support.collections`."""

from tests.support.collections import *  # noqa: F403
