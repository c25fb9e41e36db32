"""A run's result to its report: the one place that computes the fields of `evals.report.model`."""

from evals.report.building.run import build_report

__all__ = ["build_report"]
