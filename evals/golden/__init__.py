"""Golden queries: their schema, their loading, and the chunks that their evidence makes relevant."""
