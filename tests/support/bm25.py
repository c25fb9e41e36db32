"""Moved to `tests.support.hybrid`."""

from tests.support.hybrid import *  # noqa: F403
