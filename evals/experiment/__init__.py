"""An experiment from its configuration to a finished run: open, measure, write."""
