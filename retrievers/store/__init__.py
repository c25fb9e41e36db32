"""Settings to a Qdrant client, what it holds, and the checks before a collection may be queried. Never falls back."""
