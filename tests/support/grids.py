"""Moved to `tests.support.grid_world`."""

from tests.support.grid_world import *  # noqa: F403
