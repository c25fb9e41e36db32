"""Writing all queries, concurrently, through the judge's engine: stored answers are free, each is bought once."""

import asyncio
from collections.abc import Callable, Sequence

from evals.golden.synthesis.case_writing import Attempt, Writer
from evals.golden.synthesis.passages import Passages
from evals.golden.synthesis.repeats import without_repeats
from evals.golden.synthesis.sampling import Assignment
from evals.judge.judge import Judge


def synthesize(
    judge: Judge,
    passages: Passages,
    assignments: Sequence[Assignment],
    *,
    language: str,
    near: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Attempt]:
    """Write and check the queries of all assignments.

    Args:
        judge: The chat model that writes and judges, with its store and budget.
        passages: The collection.
        assignments: What to write.
        language: Language to write in; that of the passages where it is empty.
        near: Cosine similarity of two queries from which on one repeats the other.
        progress: Called with the number of queries done, and that of all.

    Returns:
        An attempt for each assignment, in their order.

    Raises:
        JudgeError: The model refused the first request for a reason that all others would share.
    """
    done: dict[str, Attempt] = {}

    async def run() -> list[Attempt]:
        writer, waiting = Writer(asker=engine, passages=passages, language=language), iter(assignments)

        async def work() -> None:
            for assignment in waiting:
                attempt = await writer.write(assignment)
                if engine.fatal:
                    return
                done[assignment.id] = attempt
                progress(len(done), len(assignments))

        await asyncio.gather(*(work() for _ in range(2 * judge.config.max_concurrency)))
        if engine.fatal:
            raise engine.fatal
        return await without_repeats([done[assignment.id] for assignment in assignments], writer, near)

    with judge.engine() as engine:
        return asyncio.run(run())
