"""Moved to `tests.support.edge_world`."""

from tests.support.edge_world import *  # noqa: F403
