"""Golden queries written by a chat model from a collection's own passages, each checked before it is kept."""
