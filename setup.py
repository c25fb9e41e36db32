"""List the packages; all else is in pyproject.toml. `datasets/` becomes `evals/datasets/`: a library has its name."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["evals", "evals.*", "retrievers", "retrievers.*"]), "evals.datasets"],
    package_dir={"evals.datasets": "datasets"},
)
