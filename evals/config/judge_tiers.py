"""The settings of two judges: a cheap one on everything, a strong one on a sample of that."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from evals.config.judged_sample import Sample, read_sample
from retrievers.config import Settings, VariableName


class TierConfig(Settings):
    """A judge of a cascade. What it leaves out is as in `judge`; address and key only where the provider is the same.

    Attributes:
        model: As `judge.model`.
        sample: As `judge.sample`, of the strong judge alone: the cheap one judges everything.
    """

    model: str = Field(min_length=1, description="provider:model of this tier")
    base_url: str | None = Field(None, description="address of the provider's API, if not its own")
    api_key_env: VariableName | None = Field(
        None, description="environment variable of the API key; the provider's if left out"
    )
    identity: str | None = Field(
        None, min_length=1, max_length=200, description="identity of the model, where name and address do not give it"
    )
    temperature: float | None = Field(None, ge=0, le=2, description="sampling temperature; judge.temperature if absent")
    max_output_tokens: int | None = Field(
        None, ge=16, description="most tokens of one answer; judge.max_output_tokens if absent"
    )
    sample: Annotated[Sample, BeforeValidator(read_sample)] = Field(
        "all", description="queries of the strong judge: auto, a share of all queries (0.1) or a number (40)"
    )

    @property
    def provider(self) -> str:
        """The part of `model` before the colon."""
        return self.model.partition(":")[0]


def tiers_fault(tiers: Sequence[TierConfig], *, in_rounds: bool = False) -> str:
    """Return the reason why these are not a cheap judge and a strong one, empty when they are.

    Args:
        tiers: The judges.
        in_rounds: True if the strong one judges in rounds (judge.stop), of which it may take part in all.
    """
    if len(tiers) != 2:
        return f"tiers: expected two judges, the cheap one first, got {len(tiers)}; judge.model names a single judge"
    cheap, strong = tiers
    if cheap.sample != "all":
        return (
            f"tiers: {cheap.model} judges everything that {strong.model} could be asked, and what it says corrects the "
            f"mean; leave out its sample, got {cheap.sample}"
        )
    if strong.sample == "all" and not in_rounds:
        return (
            f"tiers: {strong.model} judges every query, so that no other is needed; give it a sample, such as "
            "sample: 0.1"
        )
    return ""


def tier_settings(judge: dict[str, Any], tiers: Sequence[TierConfig]) -> list[dict[str, Any]]:
    """Return the settings of each tier as those of a judge of its own, the cheapest first.

    Args:
        judge: The settings of `judge`.
        tiers: Its tiers.
    """
    settings = []
    for number, tier in enumerate(tiers):
        base = {**judge, "tiers": ()}
        if number and tier.provider != tiers[0].provider:
            base |= {"base_url": None, "api_key_env": None}
        if number:
            base |= {"identity": None}
        if number < len(tiers) - 1:
            # The last one alone judges a sample, in rounds, and again.
            base |= {"rejudge": 0, "stop": {}, "sample": "all"}
        settings.append(base | {name: getattr(tier, name) for name in tier.model_fields_set})
    return settings
