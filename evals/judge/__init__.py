"""LLM-graded metrics: ragas asks any chat model. Verdicts are stored, their cost is bounded, and their trust measured.

A question's way, file by file: `judge` takes the results of a run, and `tasks` makes them into questions of ragas'
metrics. `asking` answers each prompt once: from the `store`, or by a call of the model in `chat`, if the `budget` holds
another one. `answers` reads what the model wrote. The results are `verdicts`, and `trust` says how good they are.
"""
