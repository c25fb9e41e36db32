"""Golden queries: their schema, their reading, and which chunks their evidence makes relevant."""
