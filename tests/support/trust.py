"""Statistics of a judge, all of them."""

import numpy as np

from evals.judge.people import correct
from evals.judge.trust import Pair, Trust, agree, self_agreement

ROWS = [
    Pair(
        query_id=f"q{query:02}",
        chunk_id=f"c{chunk}",
        verdict=1 if verdict else 0,
        label=1 if label else 0,
        reason=f"{query} {chunk}",
    )
    for query in range(20)
    for chunk, (verdict, label) in enumerate([(1, 1), (0, 0), (int(query % 5 == 0), int(query % 7 == 0))])
]


def whole() -> Trust:
    rng = np.random.default_rng(0)
    judged = {f"q{place:03}": float(score) for place, score in enumerate(rng.random(150))}
    order = sorted(judged)
    rejudged = [Pair(query_id=f"q{q}", chunk_id="c", verdict=1, label=int(q % 9 > 0)) for q in range(30)]
    return Trust(
        agreement=agree(ROWS, 0),
        self_agreement=self_agreement(rejudged, 0),
        corrections=(
            correct(
                "ragas/llm_context_precision", order, [judged], {key: judged[key] * 0.9 for key in order[:100]}, {}
            ),
            correct("ragas/llm_context_recall", order, [judged], {"q000": 0.5}, {}),
        ),
    )
