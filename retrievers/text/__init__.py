"""Text on its way out: secrets hidden, control characters visible, quotes short."""
