"""Comparing runs by their reports: what makes them comparable, how their scores differ, which queries moved."""
