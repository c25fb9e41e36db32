"""The settings of the judge."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from retrievers.config import TABLE, Settings, VariableName, address

Sample = Literal["all", "auto"] | int | float
"""Which queries are judged: all, a share below 1, a number of them, or as many as the interval of the mean needs."""


def read_sample(written: Any) -> Sample:
    """Return a sample as written in settings.

    Raises:
        ValueError: It is none.
    """
    expected = "expected all, auto, a share such as 0.1, or a number of queries from 2"
    if written in ("all", "auto"):
        return "all" if written == "all" else "auto"
    try:
        number = float(written)
    except (TypeError, ValueError):
        raise ValueError(expected) from None
    if isinstance(written, bool) or not (0 < number < 1 or (number >= 2 and number.is_integer())):
        raise ValueError(expected)
    return number if number < 1 else int(number)


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


class PriceConfig(Settings):
    """Price of a model's tokens, in US dollars per million."""

    input: float = Field(ge=0, description="US dollars per million tokens read")
    output: float = Field(ge=0, description="US dollars per million tokens written")


class BudgetConfig(Settings):
    """Limits on buying verdicts. Verdicts bought by then are reported; the rest is unscored."""

    calls: int | None = Field(None, ge=0, description="most calls of the judge")
    tokens: int | None = Field(None, ge=0, description="most tokens, read and written together")
    usd: float | None = Field(None, ge=0, description="most US dollars, by judge.prices")


class StopConfig(Settings):
    """When a grid is judged no further."""

    margin: float | None = Field(
        None, ge=0, description="judge no further once a cell is proved at most this far below the best, e.g. 0.03"
    )


class JudgeConfig(Settings):
    """Which language model judges, how fast, and for how much. Without `model` there is no judge and no LLM metric.

    Attributes:
        model: `provider:model`, such as `cohere:command-a-03-2025`; `python:module:factory` calls a function of the
            user's that returns a LangChain chat model. An OpenAI-compatible server (llama.cpp, vLLM) is `openai:NAME`
            with `base_url`.
        identity: A name of what answers, where model, parameters and address do not tell: the verdicts of one identity
            are not used for another. A `python:` model that does not tell its parameters is cached only with one.
        temperature: None leaves it to the provider, for models that refuse the parameter.
        structured: True to ask the model for JSON by the provider's own option; `auto` finds out.
        timeout_s: Seconds one request may take.
        deadline_s: Seconds one verdict may take, from its first request, with all further attempts; the time that
            everybody waits because a server limits the rate does not count.
        cache: `off` neither reads nor writes the verdict store.
        refresh: Ask for stored verdicts again, and store the new answer.
        sample: Queries that are judged, drawn at random, of each query type its share. Means are corrected by the
            golden labels of all queries, without labels by the words of the reference answers. `auto` judges until the
            95% interval is at most a quarter wider than that of all queries would be.
        stop: With a margin, a grid is judged in rounds of queries, and no further once a cell is proved within that
            margin of the best.
        tiers: Two judges in place of one, the cheap one first: the strong one judges a beginning of its queries, and
            the cheap one's scores correct the mean. `model` is that of the first.
        rejudge: Number of queries judged a second time, past the store: does the judge agree with itself?
        strict: Count it as a failure where a judge's statements share nothing with the reference answer.
        prices: Model (as in `model`) to what its tokens cost.
    """

    model: str | None = Field(None, description="provider:model of the judge; without one there are no LLM metrics")
    base_url: str | None = Field(None, description="address of the provider's API, if not its own")
    api_key_env: VariableName | None = Field(
        None, description="environment variable of the API key; the provider's if left out"
    )
    identity: str | None = Field(
        None, min_length=1, max_length=200, description="identity of the model, where name and address do not give it"
    )
    temperature: float | None = Field(0.0, ge=0, le=2, description="sampling temperature")
    seed: int | None = Field(0, description="seed of sampling, where the provider takes one")
    max_output_tokens: int = Field(2048, ge=16, description="most tokens of one answer")
    structured: Literal["auto", "on", "off"] = Field("auto", description="JSON by the provider's means: auto, on, off")
    timeout_s: float = Field(60.0, gt=0, le=3600, description="seconds one request may take")
    deadline_s: float = Field(180.0, gt=0, le=86_400, description="seconds one verdict may take, with all attempts")
    max_concurrency: int = Field(16, ge=1, le=512, description="most requests at once")
    requests_per_minute: float | None = Field(None, gt=0, description="most requests a minute")
    tokens_per_minute: float | None = Field(None, gt=0, description="most tokens a minute, read and written")
    cache: Literal["on", "off"] = Field("on", description="keep verdicts on disk: on or off")
    cache_path: Path | None = Field(None, description="file of the verdicts; in the user's cache folder if left out")
    cache_max_mb: float = Field(2048.0, gt=0, description="megabytes of the verdict store, oldest used go first")
    cache_max_days: float | None = Field(None, gt=0, description="days a verdict is kept; without limit if left out")
    refresh: bool = Field(False, description="ask for stored verdicts again")
    sample: Annotated[Sample, BeforeValidator(read_sample)] = Field(
        "all", description="queries to judge, drawn at random: all, auto, a share (0.1) or a number (40)"
    )
    stop: StopConfig = Field(default_factory=lambda: StopConfig.model_validate({}), description="end of judging a grid")
    tiers: tuple[TierConfig, ...] = Field(
        (), description="two judges, the cheap one first: [{model: small}, {model: large, sample: 0.1}]"
    )
    strict: bool = Field(True, description="statements that share nothing with the reference answer are a failure")
    rejudge: int = Field(0, ge=0, description="queries to judge a second time: does the judge agree with itself?")
    budget: BudgetConfig = Field(default_factory=lambda: BudgetConfig.model_validate({}), description="limits")
    prices: Mapping[str, PriceConfig] = Field(
        default_factory=dict, description="model: {input, output} in USD per million tokens", json_schema_extra=TABLE
    )

    @model_validator(mode="before")
    @classmethod
    def _model_of_first_tier(cls, written: Any) -> Any:
        """Name the first tier's model, so that there is a judge, where the tiers alone say so."""
        tiers = written.get("tiers") if isinstance(written, Mapping) else None
        if not isinstance(tiers, list | tuple) or written.get("model"):
            return written
        first = next(iter(tiers), None)
        if isinstance(first, TierConfig):
            return {**written, "model": first.model}
        return {**written, "model": first.get("model")} if isinstance(first, Mapping) else written

    @field_validator("model")
    @classmethod
    def _provider_and_model(cls, model: str | None) -> str | None:
        if not model:
            return None
        provider, _, name = model.partition(":")
        if not provider or not name:
            raise ValueError("expected provider:model, such as cohere:command-a-03-2025")
        if provider == "python" and ":" not in name:
            raise ValueError("expected python:module:factory")
        return model

    @field_validator("base_url")
    @classmethod
    def _url_without_secrets(cls, url: str | None) -> str | None:
        return None if url is None else address(url, "http://localhost:8000/v1", "named by judge.api_key_env")

    @model_validator(mode="after")
    def _tiers_are_a_cascade(self) -> Self:
        if not self.tiers:
            return self
        if self.model != self.tiers[0].model:
            raise ValueError(
                f"model is {self.model!r}, but the first of tiers is {self.tiers[0].model!r}; expected the same, or no "
                "model beside tiers"
            )
        last = self.tiers[-1].model_copy(update={"sample": self.by_tier[-1].sample})
        if fault := tiers_fault([*self.tiers[:-1], last], in_rounds=self.stop.margin is not None):
            raise ValueError(fault)
        return self

    @model_validator(mode="after")
    def _dollars_need_a_price(self) -> Self:
        for model in [tier.model for tier in self.tiers] or [self.model or ""]:
            if self.budget.usd is not None and model not in self.prices:
                raise ValueError(
                    f"budget.usd is set, but prices has no entry for {model or None!r}; "
                    "write what its tokens cost, such as prices: {" + f"{model}: {{input: 2.5, output: 10}}}}"
                )
        return self

    @property
    def by_tier(self) -> "tuple[JudgeConfig, ...]":
        """The settings of each tier as those of a judge of its own, the cheapest first; without tiers these alone."""
        # Each tier is checked as the judge that it is; its price is asked for with the whole.
        whole = {name: getattr(self, name) for name in JudgeConfig.model_fields}
        return tuple(JudgeConfig.model_validate(tier) for tier in tier_settings(whole, self.tiers)) or (self,)

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
        """Return the price of the model's tokens, None when the table lacks it."""
        return self.prices.get(self.model or "")


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
