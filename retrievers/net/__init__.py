"""HTTP whose answers fit into memory, faults, retries and deadlines."""

from retrievers.net.exchange import TooLargeError, exchange

__all__ = ["TooLargeError", "exchange"]
