"""A retrieval on disk: what every golden query found, from which a run can start without the store."""
