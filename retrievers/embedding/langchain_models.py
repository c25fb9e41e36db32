"""The embedding models that LangChain knows by `provider:model`, without retries of their own."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.embeddings import Embeddings
from pydantic import ValidationError

from retrievers.config import EmbeddingConfig
from retrievers.embedding.cohere import TIMEOUT_S
from retrievers.embedding.packages import needed
from retrievers.embedding.tokens import tokenizer
from retrievers.errors import ConfigError
from retrievers.net.faults import cause
from retrievers.text.secrets import redacted

Arguments = dict[str, Any]


def make(config: EmbeddingConfig, key: str | None) -> Embeddings:
    """Make the embeddings of a provider.

    Raises:
        ConfigError: Its package is not installed, or its class refuses the settings.
    """
    if config.provider.startswith("azure") and config.base_url is None:
        raise ConfigError(f"embedding.model {config.label!r}: needs embedding.base_url, {config.declared.address}")
    with needed(config):
        from langchain.embeddings import init_embeddings

        arguments = _without_none(ARGUMENTS[config.provider](config, key)) | dict(config.options)
        try:
            embeddings = init_embeddings(config.resolved_model, provider=config.provider, **arguments)
        except ImportError:
            raise
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            raise ConfigError(f"embedding.model {config.label!r} cannot be built: {redacted(faults)}") from None
        except Exception as error:  # each provider checks its arguments in its own way
            raise ConfigError(f"embedding.model {config.label!r} cannot be built: {cause(error)}") from error
    assert isinstance(embeddings, Embeddings)
    return embeddings


def _openai(config: EmbeddingConfig, key: str | None) -> Arguments:
    return _of_openai_client(config, key or "none") | {"base_url": _address(config)}


def _azure_openai(config: EmbeddingConfig, key: str | None) -> Arguments:
    return _of_openai_client(config, key) | {"azure_endpoint": config.base_url}


def _azure_ai(config: EmbeddingConfig, key: str | None) -> Arguments:
    arguments = _of_openai_client(config, key) | {"endpoint": config.base_url, "credential": key}
    del arguments["api_key"]
    return arguments


def _of_openai_client(config: EmbeddingConfig, key: str | None) -> Arguments:
    from openai import DefaultHttpxClient

    return {
        "api_key": key,
        "timeout": TIMEOUT_S,
        "max_retries": 0,
        "dimensions": config.dimensions,
        # It would download a tokenizer's table, and average the vectors of the parts of a long text.
        "check_embedding_ctx_length": False,
        "http_client": DefaultHttpxClient(timeout=TIMEOUT_S),
    }


def _bedrock(config: EmbeddingConfig, _: str | None) -> Arguments:
    from botocore.config import Config

    _quieten("langchain_aws")
    limits = Config(connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S, retries={"total_max_attempts": 1})
    return {"endpoint_url": config.base_url, "dimensions": config.dimensions, "config": limits}


def _google_genai(config: EmbeddingConfig, key: str | None) -> Arguments:
    return {
        "api_key": key,
        "base_url": _address(config),
        "vertexai": False,
        "client_args": {"timeout": TIMEOUT_S},
        "output_dimensionality": config.dimensions,
    }


def _google_vertexai(config: EmbeddingConfig, _: str | None) -> Arguments:
    return {"base_url": config.base_url, "max_retries": 1, "dimensions": config.dimensions}


def _mistralai(config: EmbeddingConfig, key: str | None) -> Arguments:
    _quieten("langchain_mistralai.embeddings")
    return {
        "api_key": key,
        "endpoint": _address(config),
        "timeout": max(1, round(TIMEOUT_S)),
        "max_retries": None,
        "tokenizer": tokenizer(),  # its own, by which it parts requests, would be downloaded
    }


def _ollama(config: EmbeddingConfig, _: str | None) -> Arguments:
    return {
        "base_url": _address(config),
        "dimensions": config.dimensions,
        "client_kwargs": {"timeout": TIMEOUT_S},
    }


ARGUMENTS: Mapping[str, Callable[[EmbeddingConfig, str | None], Arguments]] = {
    "azure_ai": _azure_ai,
    "azure_openai": _azure_openai,
    "bedrock": _bedrock,
    "google_genai": _google_genai,
    "google_vertexai": _google_vertexai,
    "mistralai": _mistralai,
    "ollama": _ollama,
    "openai": _openai,
}


def _quieten(logger: str) -> None:
    """Keep a package from logging the faults that it raises, each with a traceback."""
    logging.getLogger(logger).setLevel(logging.CRITICAL)


def _address(config: EmbeddingConfig) -> str:
    """Return the address of the API, always named: the classes would take one from the environment."""
    return config.base_url or config.declared.address


def _without_none(arguments: Arguments) -> Arguments:
    optional = {"dimensions", "output_dimensionality", "base_url", "azure_endpoint", "endpoint", "endpoint_url"}
    return {name: value for name, value in arguments.items() if value is not None or name not in optional}
