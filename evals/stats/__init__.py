"""Statistics: intervals, paired comparison, resampling, separation of scores."""
