"""HTTP that ends in time and fits into memory."""

from retrievers.net.bounded_client import bounded, within
from retrievers.net.exchange import TooLargeError, exchange

__all__ = ["TooLargeError", "bounded", "exchange", "within"]
