"""Moved to `tests.support.qdrant_server`."""

from tests.support.qdrant_server import *  # noqa: F403
