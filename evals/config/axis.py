"""Declaration of a sweep axis, and the notation of its values."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter
from typing import Any

from pydantic import BeforeValidator

from evals.config.number_lists import integers, numbers
from retrievers.config import FOREIGN_SETTINGS, RetrieverConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A declaration of an axis, as an annotation of its field in `SweepConfig`.

    Attributes:
        setting: Dotted name of the retriever's setting that the axis changes; empty where that is the field's own name.
        cuts: The axis cuts the candidates that were found; all others decide which are found.
        applies: Says whether the setting decides what a retriever with these settings finds.
        in_force: The value in force, where that is not simply the setting's.
        resets: Settings that a change of this one sets to None.
        in_every_name: True if every variant's name shows the value; else only where several are swept.
        in_faults: True if the message on an impossible combination shows the value.
    """

    setting: str = ""
    cuts: bool = False
    applies: Callable[[RetrieverConfig], bool] = lambda settings: True
    in_force: Callable[[RetrieverConfig], Any] | None = None
    resets: tuple[str, ...] = ()
    in_every_name: bool = False
    in_faults: bool = False

    @property
    def is_foreign(self) -> bool:
        """True if the setting can be set for a retriever of the user's own."""
        return self.setting in FOREIGN_SETTINGS

    def raw(self, settings: RetrieverConfig) -> Any:
        """Return the setting as it was given."""
        return attrgetter(self.setting)(settings)

    def value(self, settings: RetrieverConfig) -> Any:
        """Return the value in force."""
        return self.in_force(settings) if self.in_force else self.raw(settings)


def _whole_numbers(written: Any) -> tuple[int, ...]:
    values = integers(written) if written not in ((), []) else ()
    if any(value < 1 for value in values):
        raise ValueError("expected whole numbers from 1")
    return values


def _numbers(written: Any) -> tuple[float, ...]:
    return numbers(written) if written not in ((), []) else ()


def _thresholds(written: Any) -> tuple[float, ...]:
    values = _numbers(written)
    if not all(map(isfinite, values)):
        raise ValueError("expected finite thresholds")
    return values


def _choices(written: Any) -> Any:
    names = [written] if isinstance(written, bool) else written
    names = [part.strip() for part in written.split(",")] if isinstance(written, str) else names
    return tuple(dict.fromkeys(names)) if isinstance(names, list | tuple) else names


# From 1: a list, or `1:20`.
WHOLE_NUMBERS = BeforeValidator(_whole_numbers)
# A list, or `0:0.95:0.05`.
NUMBERS = BeforeValidator(_numbers)
# Numbers; which of them can be thresholds depends on the distance.
THRESHOLDS = BeforeValidator(_thresholds)
# Names, or true and false: a list, or a text with commas.
CHOICES = BeforeValidator(_choices)
