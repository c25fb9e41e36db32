"""LLM-graded metrics: any chat model behind ragas, its verdicts kept, its cost bounded, its trust measured."""

# Seconds: the longest wait before the second attempt at a verdict; before each further one it is twice as long.
RETRY_BASE_S = 0.5
