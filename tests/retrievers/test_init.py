import subprocess
import sys

import pytest

import retrievers


def test_every_public_name_is_there() -> None:
    assert {name: getattr(retrievers, name).__name__ for name in retrievers.__all__} == {
        name: name for name in retrievers.__all__
    }


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Retriever'"):
        _ = retrievers.Retriever


def test_importing_the_package_loads_none_of_the_heavy_libraries() -> None:
    heavy = ("qdrant_client", "langchain_core", "langchain_qdrant", "cohere", "numpy", "wordllama")
    code = f"import sys, retrievers.terminal.commands; print(*({set(heavy)} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
