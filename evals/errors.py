"""The errors of evaluation; like those of `retrievers`, their text is fit to be shown to a user.

RetrievalError
└── EvaluationError
    ├── FaultyError       what was read has faults
    │   ├── DatasetError  golden data is missing, malformed or does not resolve; every fault is listed
    │   └── ReportError   a report of a run is missing, broken, of another version, or not to be compared with another
    ├── ExperimentError   the experiment asks for something that does not exist or cannot be
    ├── JudgeError        the judge cannot be built, refuses every call, or its store cannot be used
    └── TrackingError     MLflow cannot be reached or refuses
"""

from collections.abc import Sequence

from retrievers.errors import RetrievalError


class EvaluationError(RetrievalError):
    """Base of all errors raised on purpose by `evals`."""


class FaultyError(EvaluationError):
    """Input with faults.

    Attributes:
        faults: One line per fault, each beginning with `file:line` where there is one.
    """

    def __init__(self, message: str, faults: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join([message, *faults]))
        self.faults = tuple(faults)


class DatasetError(FaultyError):
    """Golden data is missing, malformed or does not resolve."""


class ReportError(FaultyError):
    """A report of a run is missing, broken or of another schema version, or cannot be compared with another."""


class ExperimentError(EvaluationError):
    """The experiment asks for something that does not exist or cannot be."""


class JudgeError(EvaluationError):
    """The judge cannot be built, refuses every call, or its verdict store cannot be used."""


class TrackingError(EvaluationError):
    """MLflow cannot be reached, or refuses."""
