import os
import stat
from pathlib import Path

import pytest

from evals.judge.store import VerdictStore
from retrievers.config.files import make_private
from retrievers.embedding.cache import EmbeddingCache
from retrievers.terminal.command import set_up_logging
from tests.support.commands import own_logging

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no modes")


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_file_is_made_for_its_owner_alone_or_kept_so(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("kept")
    old.chmod(0o644)
    for file in (new, old):
        make_private(file)
        assert mode(file) == 0o600
    assert (new.read_text(), old.read_text()) == ("", "kept")


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_private(tmp_path / "gone" / "file")


def test_caches_are_their_owners_alone(tmp_path: Path) -> None:
    old = tmp_path / "verdicts.sqlite"
    VerdictStore(old).close()
    old.chmod(0o644)
    vectors = EmbeddingCache(tmp_path / "vectors.sqlite")
    vectors.put([1.0], "key")
    with VerdictStore(old):
        kept = [file for file in tmp_path.iterdir() if file.suffix != ".lock"]
        assert len(kept) >= 4, "the journals too"
        assert {file.name: mode(file) for file in kept} == {file.name: 0o600 for file in kept}
    vectors.close()


def test_a_new_log_file_is_its_owners_alone_and_an_old_one_as_it_was(tmp_path: Path) -> None:
    shared = tmp_path / "shared.jsonl"
    shared.touch(0o644)
    for file, expected in ((tmp_path / "new.jsonl", 0o600), (shared, 0o644)):
        with own_logging():
            set_up_logging(verbose=False, log_file=file)
        assert mode(file) == expected
