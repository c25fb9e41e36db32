"""Search: requests to the store, fusion, order, selection."""
