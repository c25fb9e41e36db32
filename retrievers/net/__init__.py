"""HTTP that ends in time and fits into memory."""

from retrievers.net.bounded import bounded, within
from retrievers.net.exchange import TooLargeError, exchange

__all__ = ["TooLargeError", "bounded", "exchange", "within"]
