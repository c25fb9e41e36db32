"""Moved to `tests.support.tracking`."""

from tests.support.tracking import *  # noqa: F403
