"""Moved to `tests.support.loopback`."""

from tests.support.loopback import *  # noqa: F403
