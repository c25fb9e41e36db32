"""The clock by which deadlines pass and retries wait.

Whoever tests code that waits puts a clock of his own in place of `CLOCK`, which is read at every use.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time in seconds.

    Attributes:
        now: Seconds since some moment; they never go back.
        sleep: Wait so many seconds.
        jitter: Draw a wait between two bounds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float, float], float] = random.uniform


CLOCK = Clock()
