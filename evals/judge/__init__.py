"""LLM-graded metrics: any chat model behind ragas, its verdicts kept, its cost bounded, its trust measured.

A question's way, file by file: `judge` takes the results of a run, `tasks` makes of them the questions of ragas'
metrics, `asking` gets each prompt answered once, out of the `store` or by the model in `chat`, as far as the `budget`
holds, and reads the `answers`. What comes back are `verdicts`; `trust` says how good they are, and `plan` what they
would cost.
"""
