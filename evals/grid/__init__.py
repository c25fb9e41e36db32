"""The grid: many retrieval settings scored out of one retrieval each, every metric once per distinct selection."""
