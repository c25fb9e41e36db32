"""The base of all commands: errors to exit codes, logging, progress, text for a terminal."""
