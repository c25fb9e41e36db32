"""What all settings have in common."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, field_validator

from retrievers.paths import user_path

TABLE: dict[str, Any] = {"table": True}
"""Marks a setting whose mapping has keys of the user's own: taken whole, and replaced whole by a higher layer."""


class Settings(BaseModel):
    """Base of all settings: frozen, unknown names refused, defaults checked, `~` in a path the user's home."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @field_validator("*")
    @classmethod
    def _at_home(cls, value: Any) -> Any:
        return user_path(value) if isinstance(value, Path) else value


def address(url: str, example: str, key: str) -> str:
    """A server's address, without the slash at its end.

    Raises:
        ValueError: It is none, or carries credentials; `example` shows one, `key` says where a key belongs.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in url):
        raise ValueError(f"expected an http:// or https:// address such as {example}")
    if parts.username or parts.password or parts.query:
        raise ValueError(f"must not carry credentials; put the key into the environment variable {key}")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("the port is not a number from 0 to 65535") from None
    return url.rstrip("/")


def dump(settings: BaseModel) -> dict[str, Any]:
    """The settings as plain JSON values, paths absolute, so that they mean the same in any folder."""
    plain = settings.model_dump(mode="json")
    return {name: _absolute(value, plain[name]) for name, value in settings if name in plain}


def _absolute(value: Any, plain: Any) -> Any:
    if isinstance(value, BaseModel):
        return dump(value)
    return str(value.absolute()) if isinstance(value, Path) else plain
