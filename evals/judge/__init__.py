"""LLM-graded metrics: any chat model behind ragas, its verdicts kept, its cost bounded, its trust measured."""
