"""The early end of judging: failures in a row that are due to the judge, and not to the questions."""

from evals.errors import JudgeError
from evals.judge.ask.budget import Ledger
from evals.judge.ask.faults import Fault

# Number of invalid answers and failed verdicts in a row, and at least twice the number of concurrent calls, after
# which judging ends.
IN_A_ROW = 32
# Number of refused calls in a row, and more than the concurrent calls, for a key, account or model that was accepted
# before, after which judging ends.
REFUSED_MORE = 2


class Health:
    """Tells the failure of one verdict from a failure that all would share, and stops the ledger at the latter.

    Attributes:
        proved: True if key, model and address were accepted once.
        fatal: Reason why nothing can be judged; None while judging is possible.
    """

    def __init__(self, name: str, at_once: int, ledger: Ledger) -> None:
        self._name, self._ledger = name, ledger
        self._most, self._most_refused = max(IN_A_ROW, 2 * at_once), at_once + REFUSED_MORE
        self._failed = self._refused = 0
        self.proved = self._judged = ledger.usage.tokens_out > 0
        self.fatal: JudgeError | None = None

    def judged(self) -> None:
        """Note a verdict."""
        self._judged, self._failed, self._refused = True, 0, 0

    def malformed(self, reason: str) -> None:
        """Note an answer that is not a verdict."""
        self._refused = 0
        self._count(reason)

    def refused(self, fault: Fault) -> None:
        """Note a call that was refused for its key, account or model."""
        self._refused += 1
        if not self.proved or self._refused >= self._most_refused:
            self._end(f"the judge {self._name} refuses every call: {fault.message}", fatal=not self.proved)

    def failed(self, fault: Fault, description: str) -> None:
        """Note a verdict that was given up.

        Args:
            fault: Fault of its last attempt.
            description: The fault and the number of attempts, in words.
        """
        if self.proved or fault.of_prompt:
            self._count(description)
        else:
            verb = "failed at the first call" if fault.kind == "refused" else "cannot be reached"
            self._end(f"the judge {self._name} {verb}: {description}", fatal=True)

    def limited(self, seconds: float, description: str) -> None:
        """Note that the server has refused all calls for `seconds` because of their rate."""
        reason = f"the judge {self._name} let no call through for {seconds:.0f} s (judge.deadline_s): {description}"
        self._end(reason, fatal=not self._judged)

    def _count(self, reason: str) -> None:
        self._failed += 1
        if self._failed >= self._most:
            message = f"the judge {self._name} failed {self._failed} times in a row, at last: {reason}"
            self._end(message, fatal=not self._judged)

    def _end(self, reason: str, *, fatal: bool) -> None:
        if fatal and self.fatal is None:
            self.fatal = JudgeError(reason)
        self._ledger.stop(reason)
