"""Moved to `tests.support.command`."""

from tests.support.command import *  # noqa: F403
