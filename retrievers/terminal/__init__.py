"""What all commands share: errors to exit codes, logging, progress, text for a terminal."""
