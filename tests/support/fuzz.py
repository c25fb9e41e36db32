"""Feeding a parser thousands of made inputs: it reads or refuses each, within its time and memory.

The parser runs in a fork. An input that hangs, crashes the interpreter or takes all memory ends the fork alone, and is
named by its number: `make(Random(f"{seed}:{number}"))` makes it again.
"""

import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from retrievers.errors import RetrievalError

Input = TypeVar("Input")
MOST_S = 10.0
"""Processor time that one input may take, with coverage measured on a slow machine; what hangs takes far more."""
MOST_MB = 200.0
"""How far all inputs together may raise the peak of the process's memory."""
ENDED_AFTER_S = 30.0
GUARD_BYTES = 2 << 30
ODD = ("\x00", "\x1b", "\ufeff", "\u2028", "\u202e", "\ud800", "é", "𝒳", "\t", "\r", "\n", "9" * 5_000, " " * 1_000)
NUMBER = struct.Struct("q")


@dataclass(frozen=True, kw_only=True)
class Fuzzed:
    """Counts of the inputs that were read and refused, and the worst of them."""

    read: int
    refused: int
    slowest_s: float
    peak_mb: float


def fuzz(
    parse: Callable[[Input], object],
    make: Callable[[Random], Input],
    *,
    count: int = 20_000,
    seed: int = 0,
    refusals: type[Exception] | tuple[type[Exception], ...] = RetrievalError,
) -> Fuzzed:
    """Feed a parser generated inputs.

    Args:
        parse: The parser.
        make: Makes an input out of a seeded source of chance, such as `mutated`.
        refusals: What the parser may raise.

    Raises:
        AssertionError: An input, which is named, raised something else, took too long or too much memory, or ended
            the process.
    """
    current, (reading, writing) = mmap.mmap(-1, NUMBER.size), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, none of which the child needs
        child = os.fork()
    if not child:
        os.close(reading)
        try:
            answer = _feed(parse, make, count, seed, refusals, current)
        except BaseException:  # `make` is broken
            answer = {"fault": traceback.format_exc()}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    [number] = NUMBER.unpack(current[:])
    crash = {"fault": f"ended the process with {ended} (-14: no end in {ENDED_AFTER_S} s)"}
    answer = json.loads(text) if text else crash
    if "fault" in answer:
        shown = repr(make(Random(f"{seed}:{number}")))
        shown = shown if len(shown) < 1_000 else f"{shown[:500]} … {shown[-500:]} ({len(shown):,} characters)"
        raise AssertionError(f"input {number} of seed {seed}: {answer['fault']}\n{shown}")
    return Fuzzed(**answer)


def mutated(random: Random, seeds: Sequence[str], tokens: Sequence[str], most: int = 10_000) -> str:
    """Return one of the seeds after a few changes: slices cut, doubled and borrowed, tokens inserted, once or often.

    Args:
        seeds: Valid inputs, each showing other features of the language.
        tokens: What the language gives a meaning to.
        most: How often a token is repeated at most.
    """
    text = random.choice(seeds)
    for _ in range(random.choice((0, 1, 1, 2, 3, 5, 8))):
        place, other = sorted((random.randint(0, len(text)), random.randint(0, len(text))))
        match random.randrange(6):
            case 0:
                text = text[:place] + text[other:]
            case 1:
                text = text[:other] + text[place:]
            case 2:
                source = random.choice(seeds)
                begin = random.randint(0, len(source))
                text = text[:place] + source[begin : random.randint(begin, len(source))] + text[other:]
            case 3:
                text = text[:place] + random.choice(ODD) + text[place:]
            case 4:
                times = int(most ** random.random())
                text = text[:place] + random.choice(tokens) * times + text[place:]
            case _:
                text = text[:place] + random.choice(tokens) + text[place:]
    return text


def _feed(
    parse: Callable[[Any], object],
    make: Callable[[Random], Any],
    count: int,
    seed: int,
    refusals: type[Exception] | tuple[type[Exception], ...],
    current: mmap.mmap,
) -> dict[str, Any]:
    _guard_memory()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process, whatever it is doing
    read = refused = 0
    slowest = 0.0
    start = _peak_mb()
    for number in range(count):
        current[:] = NUMBER.pack(number)
        made = make(Random(f"{seed}:{number}"))
        signal.setitimer(signal.ITIMER_REAL, ENDED_AFTER_S)
        before = time.process_time()
        try:
            parse(made)
            read += 1
        except refusals:
            refused += 1
        except BaseException:
            return {"fault": traceback.format_exc()[-3_000:]}
        spent, peak = time.process_time() - before, _peak_mb() - start
        if spent > MOST_S or peak > MOST_MB:
            return {"fault": f"took {spent:.1f} s and raised the peak of the memory by {peak:.0f} MB"}
        slowest = max(slowest, spent)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {"read": read, "refused": refused, "slowest_s": slowest, "peak_mb": _peak_mb() - start}


def _guard_memory() -> None:
    """Let an input that takes gigabytes fail before the machine does."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        most = int(pages.read_text().split()[0]) * resource.getpagesize() + GUARD_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _peak_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
