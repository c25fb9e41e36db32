"""What the gRPC client raises as our errors, by the same rules as over HTTP."""

from collections.abc import Mapping

from retrievers.config import StoreConfig
from retrievers.errors import StoreError, StoreTimeoutError, StoreUnreachableError
from retrievers.store.refusals import one_line, refusal

STATUSES: Mapping[str, int] = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "ABORTED": 500,
}
"""The HTTP statuses that codes of gRPC stand for."""


def grpc_error(error: Exception, place: str, store: StoreConfig, keyed: bool) -> StoreError | None:
    """Our error for one of gRPC, marked for `retrievers.net.retry`; None for another one.

    Args:
        error: What the client raised.
        place: Where the store is, with the collection.
        store: The store.
        keyed: Whether the request was sent with an API key.
    """
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

    if isinstance(error, ResourceExhaustedResponse):
        wait, said = float(error.retry_after_s), one_line(error.message)
        return refusal(store, place, "RESOURCE_EXHAUSTED", 429, said, retry_after_s=wait, keyed=keyed)
    code = getattr(error, "code", None)
    if not callable(code):
        return None
    name = str(getattr(code(), "name", code()))
    said = one_line(getattr(error, "details", str)())
    if name == "DEADLINE_EXCEEDED":
        return StoreTimeoutError(
            f"{place}: no answer in time over gRPC; raise store.timeout_s or look at the server"
        ).marked(transient=True, timed_out=True, away=True)
    if name == "UNAVAILABLE":
        return _unavailable(said, place, store)
    if name == "UNIMPLEMENTED":
        return StoreError(f"{place}: answered {name}: is store.grpc_port {store.grpc_port} Qdrant's port for gRPC?")
    return refusal(store, place, name, STATUSES.get(name, 0), said, retry_after_s=None, keyed=keyed)


def _unavailable(said: str, place: str, store: StoreConfig) -> StoreError:
    """The error for a server that cannot be reached; of gRPC's words alone tells whether that may pass."""
    port = f"port {store.grpc_port}"
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return StoreError(
            f"{place}: its certificate on {port} is not trusted ({said}); name the authority that signed it in "
            "store.ca_file"
        )
    unencrypted = "WRONG_VERSION_NUMBER" in said
    lasting = unencrypted or ("DNS resolution failed" in said and "not known" in said)
    remedy = (
        f"{port} does not speak TLS: write http:// in store.url"
        if unencrypted
        else "is the server running, are store.url and store.grpc_port right?"
    )
    return StoreUnreachableError(f"{place}: cannot be reached over gRPC at {port} ({said}); {remedy}").marked(
        transient=not lasting, away=not lasting
    )
