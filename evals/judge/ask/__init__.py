"""Asking a language model: prompts to verdicts, cached, budgeted, paced."""
