"""When judging ends before all is judged: what failures in a row say of the judge, and not of the questions."""

from evals.errors import JudgeError
from evals.judge.ask.budget import Ledger
from evals.judge.ask.faults import Fault

IN_A_ROW = 32
"""Answers that are no verdicts and verdicts that fail, one after the other, and at least twice as many as calls are
made at once: then judging ends."""
REFUSED_MORE = 2
"""Calls refused in a row, more than are made at once, for a key, account or model that was right before: then judging
ends."""


class Health:
    """Tells the failure of one verdict from a failure that all would share, and stops the ledger at the latter.

    Attributes:
        proved: Whether key, model and address were right once.
        fatal: Why nothing at all can be judged; None while something may be.
    """

    def __init__(self, name: str, at_once: int, ledger: Ledger) -> None:
        self._name, self._ledger = name, ledger
        self._most, self._most_refused = max(IN_A_ROW, 2 * at_once), at_once + REFUSED_MORE
        self._failed = self._refused = 0
        self.proved = self._judged = ledger.usage.tokens_out > 0
        self.fatal: JudgeError | None = None

    def judged(self) -> None:
        """A verdict came."""
        self._judged, self._failed, self._refused = True, 0, 0

    def malformed(self, reason: str) -> None:
        """An answer came that is no verdict."""
        self._refused = 0
        self._count(reason)

    def refused(self, fault: Fault) -> None:
        """A call was refused for its key, account or model."""
        self._refused += 1
        if not self.proved or self._refused >= self._most_refused:
            self._end(f"the judge {self._name} refuses every call: {fault.message}", fatal=not self.proved)

    def failed(self, fault: Fault, said: str) -> None:
        """A verdict was given up.

        Args:
            fault: Of its last attempt.
            said: The fault and the number of attempts, in words.
        """
        if self.proved or fault.of_prompt:
            self._count(said)
        else:
            verb = "failed at the first call" if fault.kind == "refused" else "cannot be reached"
            self._end(f"the judge {self._name} {verb}: {said}", fatal=True)

    def limited(self, seconds: float, said: str) -> None:
        """The server refused all calls for so long, because of their rate."""
        reason = f"the judge {self._name} let no call through for {seconds:.0f} s (judge.deadline_s): {said}"
        self._end(reason, fatal=not self._judged)

    def _count(self, reason: str) -> None:
        self._failed += 1
        if self._failed >= self._most:
            said = f"the judge {self._name} failed {self._failed} times in a row, at last: {reason}"
            self._end(said, fatal=not self._judged)

    def _end(self, reason: str, *, fatal: bool) -> None:
        if fatal and self.fatal is None:
            self.fatal = JudgeError(reason)
        self._ledger.stop(reason)
