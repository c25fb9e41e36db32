"""The run in a sentence, as a part of the report."""

from typing import Literal

from pydantic import Field

from evals.report.model.base import Section


class IndexTrialEntry(Section):
    """Recall of the index under other search parameters."""

    settings: str = Field(description="the settings that were tried, as text")
    recall: dict[int, float] = Field(description="number of nearest chunks to the share of them that was found")


class HeadSection(Section):
    """What a reader must know first."""

    verdict: str = Field(description="pass rate, hit rate, recall, false answers, main cause of failure, in a sentence")
    tone: Literal["good", "mixed", "bad"] = Field(
        description="good: all criteria are met and most queries pass; bad: one is not met, or something is missing"
    )
    criteria: str = Field(description="the criteria in a sentence")
    index: str = Field("", description="that the index, not the model, loses near chunks; empty where it does not")
    index_trials: list[IndexTrialEntry] = Field([], description="what wider searches would find, where it does")
    causes: dict[str, int] = Field(description="cause of failure to its number of queries, the most frequent first")
    next_flags: str = Field(description="flags of evals.run for the run that may say how to mend the main cause")
