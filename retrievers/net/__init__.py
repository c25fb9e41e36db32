"""HTTP whose answers fit into memory, faults and retries."""

from retrievers.net.exchange import TooLargeError, exchange

__all__ = ["TooLargeError", "exchange"]
