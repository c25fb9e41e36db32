"""The location of the collection."""

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from retrievers.config.paths import user_path, without_mark
from retrievers.config.settings import Settings, VariableName, address


class StoreConfig(Settings):
    """Location of the collection: a Qdrant server (`url`) or an embedded folder (`path`), not both.

    Points of qdrant-client's local mode are pickled, so that opening its folder may run any code: no folder is taken
    for one unless `path` begins with `local:`.

    A server whose certificate a private authority signed is reached with `ca_file`, which for the store replaces the
    authorities that come with the HTTP library. Where it is not set, the standard variables SSL_CERT_FILE and
    SSL_CERT_DIR of the process are honoured, as they are for every other connection.

    A golden run or an indexing run waits up to `wait_s` for a server that is away; an application's search does not.
    """

    url: str | None = Field(None, description="Qdrant server or cloud, e.g. http://localhost:6333")
    path: Path | None = Field(
        None, description="folder of the embedded store; local:FOLDER for a trusted one of qdrant-client's local mode"
    )
    api_key_env: VariableName = Field(
        "QDRANT_API_KEY", description="environment variable that holds the server's API key"
    )
    timeout_s: float = Field(10.0, gt=0, le=3600, description="seconds a request to the store may take")
    ca_file: Path | None = Field(None, description="PEM file of the authority that signed the server's certificate")
    wait_s: float = Field(
        60.0, ge=0, le=86_400, description="seconds a golden run or indexing waits for a server that is away"
    )

    @property
    def local_mode(self) -> Path | None:
        """The folder of qdrant-client's local mode; None for any other store."""
        mark, folder = without_mark(self.path or "")
        return user_path(folder) if mark else None

    @field_validator("url")
    @classmethod
    def _url_without_secrets(cls, url: str | None) -> str | None:
        return None if url is None else address(url, "http://localhost:6333", "QDRANT_API_KEY")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.url and self.path:
            raise ValueError(f"give either url or path, got both: url={self.url!r}, path={str(self.path)!r}")
        return self
