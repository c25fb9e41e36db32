"""Time that passes only when it is told to: the clock, the waits and the jitter by which requests are repeated."""

import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

# Requests of an application for one that fails again and again, by a clock that stands still but for the waits.
ATTEMPTS = 6
TRIED = " (6 attempts in 5.8 s)"


@dataclass
class Clock:
    """A clock that stands still but for the waits, which it records; the jitter is `share` of the most it may be."""

    share: float = 0.0
    time: float = 1_000.0
    waits: list[float] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds

    def now(self) -> float:
        return self.time

    def rules(self, monkeypatch: pytest.MonkeyPatch) -> "Clock":
        told = SimpleNamespace(sleep=self.wait, monotonic=self.now, perf_counter=time.perf_counter)
        for module in ("tenacity", "tenacity.nap", "retrievers.net"):
            monkeypatch.setattr(f"{module}.time", told)
        jitter = SimpleNamespace(uniform=lambda low, high: low + self.share * (high - low))
        monkeypatch.setattr("stamina._core.random", jitter)
        return self
