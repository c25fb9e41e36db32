"""Settings of an experiment."""
