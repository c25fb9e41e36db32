"""Moved to `tests.support.chat_server`."""

from tests.support.chat_server import *  # noqa: F403
