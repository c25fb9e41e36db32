"""Golden cases: their schema, their reading, the chunks that their evidence makes relevant, and their source pages."""
