"""Records to what people and programs read: JSON, terminal, figures. Pure; rounding happens here only."""
