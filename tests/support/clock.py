"""Time that passes only when it is told to: the clock, the waits and the jitter of `retrievers.clock`."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from retrievers.clock import Clock as RealClock
from retrievers.net import patience


def patient(wait_s: float) -> AbstractContextManager[None]:
    """Be as patient inside with a store that is away as a run is, up to so many seconds."""
    return patience.patient(wait_s)


@dataclass
class Clock:
    """A clock that stands still but for the waits, which it records; the jitter is `share` of the most it may be."""

    share: float = 1.0
    time: float = 1_000.0
    waits: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    """The upper bound of every jitter asked for."""

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        self.time += seconds

    def jitter(self, low: float, high: float) -> float:
        self.most.append(high)
        return low + self.share * (high - low)

    def waiting(self) -> RealClock:
        return RealClock(now=lambda: self.time, sleep=self.wait, jitter=self.jitter)
