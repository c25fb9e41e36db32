"""Labelling pooled chunks by people: the pool, the labels on disk, the local page, agreement, and the way back."""
