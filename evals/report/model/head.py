"""The run in a sentence, as a part of the report."""

from typing import Literal

from pydantic import Field

from evals.report.model.base import Section


class HeadSection(Section):
    """What a reader must know first."""

    verdict: str = Field(description="pass rate, hit rate, recall, false answers, main cause of failure, in a sentence")
    tone: Literal["good", "mixed", "bad"] = Field(
        description="good: all criteria are met and most queries pass; bad: one is not met, or something is missing"
    )
    criteria: str = Field(description="the criteria in a sentence")
    index: str = Field("", description="that the index, not the model, loses near chunks; empty where it does not")
    causes: dict[str, int] = Field(description="cause of failure to its number of queries, the most frequent first")
    next_flags: str = Field(description="flags of evals.run for the run that may say how to mend the main cause")
