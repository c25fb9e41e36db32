"""The settings of the judge."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from retrievers.config import Settings, VariableName, address, field, section, table

Sample = Literal["all", "auto"] | int | float
"""The queries to judge: all, a share below 1, a number, or as many as the interval of the mean needs (`auto`)."""


def _sample(written: Any) -> Any:
    if written in ("all", "auto"):
        return written
    try:
        number = float("none" if isinstance(written, bool) else written)
    except (TypeError, ValueError):
        number = 0.0
    if not (0 < number < 1 or (number >= 2 and number.is_integer())):
        raise ValueError("expected all, auto, a share such as 0.1, or a number of queries from 2")
    return number if number < 1 else int(number)


def _provider_and_model(model: str | None) -> str | None:
    if not model:
        return None
    provider, _, name = model.partition(":")
    if not provider or not name or (provider == "python" and ":" not in name):
        raise ValueError("expected provider:model, such as cohere:command-a-03-2025, or python:module:factory")
    return model


ModelName = Annotated[str | None, BeforeValidator(_provider_and_model)]
_address = partial(address, example="http://localhost:8000/v1", key="the variable of judge.api_key_env")
JudgeAddress = Annotated[str, AfterValidator(_address)]


class PriceConfig(Settings):
    """Price of a model's tokens, in US dollars per million."""

    input: float = Field(ge=0, description="US dollars per million tokens read")
    output: float = Field(ge=0, description="US dollars per million tokens written")


class BudgetConfig(Settings):
    """Limits on buying verdicts. Verdicts bought by then are reported; the rest is unscored."""

    calls: int | None = field(None, "most calls of the judge", ge=0)
    usd: float | None = field(None, "most US dollars, by judge.prices", ge=0)


class StopConfig(Settings):
    """When a grid is judged no further."""

    margin: float | None = field(
        None, "judge no further once a cell is proved at most this far below the best, e.g. 0.03", ge=0
    )


class SecondConfig(Settings):
    """A stronger judge above the one that judges everything: what it says of a sample of queries is what counts.

    Attributes:
        model: As `judge.model`. Address and key are those of `judge` where the provider is the same, else its own.
        sample: As `judge.sample`.
    """

    model: ModelName = field(None, "provider:model of a stronger judge of a sample of the queries")
    sample: Annotated[Sample, BeforeValidator(_sample)] = field(
        "all", "queries that it judges: auto, a share of all queries (0.1) or a number (40)"
    )


class JudgeConfig(Settings):
    """Which language model judges, how fast, and for how much. Without `model` there is no judge and no LLM metric.

    Attributes:
        model: `provider:model`, such as `cohere:command-a-03-2025`; `python:module:factory` calls a function of the
            user's that returns a LangChain chat model. An OpenAI-compatible server (llama.cpp, vLLM) is `openai:NAME`
            with `base_url`.
        temperature: None leaves it to the provider, for models that refuse the parameter.
        timeout_s: Seconds one request may take; all attempts at one verdict may take three times as long, without the
            waits that a server asks for.
        sample: Queries that are judged, drawn at random. Means are corrected by the
            golden labels of all queries, without labels by the words of the reference answers. `auto` judges until the
            95% interval is at most a quarter wider than that of all queries would be.
        stop: With a margin, a grid is judged in rounds of queries, and no further once a cell is proved within that
            margin of the best.
        second: A stronger judge of a sample of the queries; this one's scores correct its mean.
        rejudge: Number of queries judged a second time: does the judge agree with itself? Their second verdicts are
            stored apart.
        prices: Model (as in `model`) to what its tokens cost.
    """

    model: ModelName = field(None, "provider:model of the judge; without one there are no LLM metrics")
    base_url: JudgeAddress | None = field(None, "address of the provider's API, if not its own")
    api_key_env: VariableName | None = field(None, "environment variable of the API key; the provider's if left out")
    temperature: float | None = field(0.0, "sampling temperature", ge=0, le=2)
    max_output_tokens: int = field(2048, "most tokens of one answer", ge=16)
    timeout_s: float = field(60.0, "seconds one request may take", gt=0, le=3600)
    max_concurrency: int = field(16, "most requests at once", ge=1, le=512)
    requests_per_minute: float | None = field(None, "most requests a minute", gt=0)
    tokens_per_minute: float | None = field(None, "most tokens a minute, read and written", gt=0)
    cache_path: Path | None = field(None, "file of the verdicts; in the user's cache folder if left out")
    sample: Annotated[Sample, BeforeValidator(_sample)] = field(
        "all", "queries to judge, drawn at random: all, auto, a share (0.1) or a number (40)"
    )
    stop: StopConfig = section(StopConfig, "end of judging a grid")
    second: SecondConfig = section(SecondConfig, "a stronger judge of a sample")
    rejudge: int = field(0, "queries to judge a second time: does the judge agree with itself?", ge=0)
    budget: BudgetConfig = section(BudgetConfig, "limits")
    prices: Mapping[str, PriceConfig] = table("model: {input, output} in USD per million tokens")

    @model_validator(mode="after")
    def _together(self) -> Self:
        """Check settings that depend on each other."""
        second = self.second.model
        if second and not self.model:
            raise ValueError(
                f"second: {second} needs a first judge in model; without any, write model: null, sample: all"
            )
        if second and second == self.model:
            raise ValueError(f"second: expected a stronger judge than {second}, which judges everything")
        if not second and self.second != SecondConfig.model_validate({}):
            raise ValueError("second: expected a stronger judge in second.model above the one in model, or sample: all")
        if second and self.sample != "all":
            raise ValueError(
                f"{self.model} judges everything beside {second}; write sample: {self.sample} into judge.second"
            )
        if second and self.second.sample == "all" and self.stop.margin is None:
            raise ValueError(f"second: {second} would judge every query alone; give it a sample, such as sample: 0.1")
        unpriced = {*filter(None, (self.model, second))} - self.prices.keys()
        if self.budget.usd is not None and unpriced:
            entries = ", ".join(f"{model}: {{input: 2.5, output: 10}}" for model in sorted(unpriced))
            raise ValueError(f"budget.usd needs the price of every token; write into prices: {{{entries}}}")
        return self

    @property
    def by_tier(self) -> "tuple[JudgeConfig, ...]":
        """The settings of each judge as if it were the only one; the stronger judge comes last."""
        if self.second.model is None:
            return (self,)
        alone = SecondConfig.model_validate({})
        first = {"second": alone, "rejudge": 0, "stop": StopConfig.model_validate({})}
        strong = {"second": alone, "model": self.second.model, "sample": self.second.sample}
        if self.second.model.partition(":")[0] != self.provider:
            strong |= {"base_url": None, "api_key_env": None}
        return self.model_copy(update=first), self.model_copy(update=strong)

    @property
    def provider(self) -> str:
        """The part of `model` before the colon; empty without a judge."""
        return (self.model or "").partition(":")[0]

    @property
    def name(self) -> str:
        """The part of `model` after the colon; empty without a judge."""
        return (self.model or "").partition(":")[2]

    @property
    def price(self) -> PriceConfig | None:
        """The price of the model's tokens; None if `prices` lacks it."""
        return self.prices.get(self.model or "")


class ModelSettings(Settings):
    """The chat model that writes golden queries, and judges them."""

    judge: JudgeConfig = section(JudgeConfig, "the chat model")
