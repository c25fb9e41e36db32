"""What `retrievers inspect` looks at, and the experiment that it writes of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from retrievers.config import RetrieverConfig, dump
from retrievers.config.paths import LOCAL_MODE
from retrievers.errors import ConfigError
from retrievers.records import ALIASES
from retrievers.retriever.opened import open_retriever
from retrievers.store import CollectionInfo, describe, embedded_folder, open_client, read_info
from retrievers.store.inspection import SAMPLE, Proposal, sample
from retrievers.store.payload import all_metadata

# Asked of a retriever whose chunks cannot be listed, so that it shows some.
QUESTION = "What is this about?"


def look(
    config: RetrieverConfig, env: Mapping[str, str]
) -> tuple[RetrieverConfig, CollectionInfo | None, list[Mapping[str, Any]]]:
    """Return the settings, the collection, and the payloads of some of its chunks.

    Where the settings name no vector, and the collection has one alone under a name, they are returned with that name.

    For the user's own retriever it is the collection behind it. Where that is unknown there is none, and the payloads
    are the metadata of what it returns for a question.

    Raises:
        RetrievalError: The store or the retriever failed.
    """
    if config.python is None:
        client = open_client(config.store, env)
        try:
            config = _with_only_vector(config, read_info(client, config))
            info = describe(client, config)
            return config, info, sample(client, config, info.limits)
        finally:
            client.close()
    with open_retriever(config, env=env) as retriever:
        if retriever.info is not None:
            return config, retriever.info, [payload for _, payload in retriever.sample(SAMPLE)]
        session = retriever.search(QUESTION)
    if session.error:
        raise ConfigError(f"{session.error} (it was asked {QUESTION!r})")
    return config, None, [_payload(hit.chunk) for hit in session.chunks]


def _with_only_vector(config: RetrieverConfig, info: CollectionInfo) -> RetrieverConfig:
    single = [name for name in info.vectors if name not in info.multivectors]
    if config.vector_name or "" in info.vectors or len(single) != 1:
        return config
    return config.model_copy(update={"vector_name": single[0]})


def write_experiment(file: Path, config: RetrieverConfig, proposal: Proposal, env: Mapping[str, str]) -> None:
    """Write an experiment on what was looked at, with the proposed `metadata`, after opening the retriever by it.

    Raises:
        RetrievalError: The file exists or cannot be written, or the settings do not open the retriever: its embedding
            model is another one, for example.
    """
    proposed = {"text_key": proposal.text_key or config.metadata.text_key, "nested_under": proposal.nested_under}
    mapping = {name: key for name, key in proposal.map.items() if ALIASES.get(key) != name}
    changes: dict[str, Any] = {"metadata": config.metadata.model_copy(update={**proposed, "map": mapping})}
    if config.python is None and config.store.url is None:
        folder = embedded_folder(config.store).absolute()
        changes["store"] = config.store.model_copy(
            update={"path": Path(f"{LOCAL_MODE}{folder}") if config.store.local_mode else folder}
        )
    if config.python is not None and proposal.text_key in (None, "page_content"):
        changes["metadata"] = config.metadata.model_copy(update={"map": mapping})
    settings = config.model_copy(update=changes)
    open_retriever(settings, env=env).close()
    retriever = _differing(dump(settings), dump(RetrieverConfig.model_validate({})))
    name = {} if config.python is not None else {"name": config.collection}
    text = yaml.safe_dump({**name, "retriever": retriever, "dataset": {"path": "golden.jsonl"}}, sort_keys=False)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise ConfigError(f"{file}: exists already; name another file with --write") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror})") from error


def retriever_text(config: RetrieverConfig, payloads: Sequence[Mapping[str, Any]]) -> str:
    """Say what was asked of a retriever whose collection is unknown."""
    return (
        f"Retriever    python {config.python}\nCollection   not known: its chunks cannot be listed\n"
        f"Looked at    {len(payloads)} documents, which it returned for {QUESTION!r}"
    )


def _payload(chunk: Any) -> dict[str, Any]:
    stand_ins = {ALIASES[key] for key in chunk.extra if key in ALIASES}
    own = {k: v for k, v in all_metadata(chunk).items() if k not in ("chunk_id", "chunk_text_preview", *stand_ins)}
    return {"page_content": chunk.text, "metadata": own}


def _differing(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not as by default."""
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    return {
        name: _differing(value, defaults[name])
        if isinstance(value, dict) and isinstance(defaults[name], dict) and name != "map"
        else value
        for name, value in changed.items()
    }
