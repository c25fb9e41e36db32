"""A look at a collection: what it is made of, what a retriever has to be told of it, and what is wrong with it."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.records import ALIASES
from retrievers.retriever.opened import open_retriever
from retrievers.store.collection import CollectionInfo, describe
from retrievers.store.inspection import Proposal, payload_keys, propose
from retrievers.store.opening import open_client, placed
from retrievers.terminal.audit import UNCHECKED, audit, read


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Findings of a look at a collection.

    Attributes:
        config: The settings. Where they name no vector, and the collection has one alone under a name, with that name;
            with payload keys and a sparse vector as `Reading` has them.
        info: Properties of the collection.
        payloads: Payloads of some chunks, which the checks read, too.
        health: The names of the checks, each with the fault and its remedy, or why it was not made; empty for neither.
    """

    config: RetrieverConfig
    info: CollectionInfo
    payloads: Sequence[Mapping[str, Any]]
    health: Mapping[str, str] = field(default_factory=dict)

    @property
    def proposal(self) -> Proposal:
        """The `metadata` setting that is proposed, with what the settings map."""
        found, given = propose(self.payloads), self.config.metadata.map
        missing = tuple(name for name in found.missing if name not in given)
        return replace(found, map={**found.map, **given}, missing=missing)

    def text(self) -> str:
        """Render what was seen for the terminal."""
        lines = [*_of_collection(self.info), "", *self._of_payload()]
        if self.health:
            lines += ["", f"Checked on {len(self.payloads):,} points:"]
        for name, fault in self.health.items():
            mark = "ok" if not fault else "–" if fault.startswith(UNCHECKED) else "FAULT"
            lines.append(f"  {mark:<6}{name}{fault and ': '}{fault}")
        return "\n".join(lines)

    def _of_payload(self) -> list[str]:
        """Render payload keys, and the settings that are proposed for them and for the vector."""
        keys, proposal = payload_keys(self.payloads), self.proposal
        width = max((len(key.key) for key in keys), default=0)
        types = [", ".join(f"{kind} × {count}" for kind, count in key.types.items()) for key in keys]
        metadata: dict[str, Any] = {"text_key": proposal.text_key or "?", "nested_under": proposal.nested_under}
        metadata |= {"map": dict(proposal.map)} if proposal.map else {}
        named: dict[str, Any] = {"vector_name": self.config.vector_name} if self.config.vector_name else {}
        keyword = self.config.keyword.model_dump(include={"vector_name"}, exclude_defaults=True)
        named |= {"keyword": keyword} if keyword else {}
        return [
            "Payload keys (of some points):",
            *(f"  {key.key:<{width}}  {kinds:<12}  {key.example}" for key, kinds in zip(keys, types, strict=True)),
            "",
            "Proposed setting for your experiment file (check it against the examples above):",
            yaml.safe_dump({"retriever": named | {"metadata": metadata}}, sort_keys=False).rstrip(),
            "",
            f"Found under their own names: {', '.join(proposal.same_name) or 'none'}",
            f"Not found: {', '.join(proposal.missing) or 'none'}",
        ]


def _of_collection(info: CollectionInfo) -> list[str]:
    """Render a collection: size, vectors, recorded model and settings of indexing."""
    recorded = info.manifest.get("embedding")
    vectors = ", ".join(f"{name or '(unnamed)'}: {size}" for name, size in info.vectors.items())
    return [
        f"Collection   {info.name}",
        f"Points       {info.points:,}",
        f"Vectors      {vectors}; distance {info.distance}",
        f"Sparse       {', '.join(info.sparse_vectors) or 'none'}",
        f"Embedded by  {'{provider}:{model}'.format(**recorded) if recorded else 'none recorded'}",
        f"Index        {', '.join(f'{k} {str(v).lower()}' for k, v in info.index.items()) or 'none recorded'}",
        f"State        {info.manifest.get('state', 'not made by retrievers index')}",
    ]


def look(config: RetrieverConfig, env: Mapping[str, str]) -> Inspection:
    """Read a collection; write nothing.

    Raises:
        StoreError: The store failed.
    """
    with closing(open_client(config.store, env)) as client:
        info = describe(client, config)
        reading = read(client, config.model_copy(update={"vector_name": info.vector_name}), env, info)
    payloads = [point.payload or {} for point in reading.points]
    return Inspection(config=reading.config, info=info, payloads=payloads, health=audit(reading))


def write_experiment(file: Path, seen: Inspection, env: Mapping[str, str]) -> None:
    """Write an experiment on what was looked at, with the proposed `metadata`, after opening the retriever by it.

    It searches in hybrid mode where the collection has the keyword side for it, and the settings name no mode.

    Raises:
        RetrievalError: The file exists or cannot be written, or the settings do not open the retriever: its embedding
            model is another one, for example.
    """
    config, proposal = seen.config, seen.proposal
    mapped = {name: key for name, key in proposal.map.items() if ALIASES.get(key) != name}
    text_key = proposal.text_key or config.metadata.text_key
    metadata = {"map": mapped, "text_key": text_key, "nested_under": proposal.nested_under}
    changes: dict[str, Any] = {"metadata": config.metadata.model_copy(update=metadata)}
    keyword = config.keyword.vector_name
    has_terms = keyword in seen.info.sparse_vectors and keyword not in seen.info.without_idf
    if has_terms and "mode" not in config.model_fields_set:
        # Weighted sums are of scores from 0 to 1.
        changes |= {"mode": "hybrid"} | ({"fusion": "rrf"} if seen.info.distance != "cosine" else {})
    open_retriever(config.model_copy(update=changes), env=env).close()
    changes["store"] = placed(config.store, file)
    retriever = config.model_copy(update=changes).model_dump(mode="json", exclude_defaults=True)
    written = {"name": config.collection, "retriever": retriever, "dataset": {"path": "golden.jsonl"}}
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(yaml.safe_dump(written, sort_keys=False))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror}); name another file with --write") from error
