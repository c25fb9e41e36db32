"""The gRPC client's errors as ours, by the same rules as over HTTP."""

from collections.abc import Mapping

from retrievers.config import StoreConfig
from retrievers.errors import StoreError, StoreTimeoutError, StoreUnreachableError
from retrievers.store.refusals import one_line, refusal

# The HTTP statuses that correspond to codes of gRPC.
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


def grpc_error(error: Exception, address: str, store: StoreConfig, keyed: bool) -> StoreError | None:
    """Convert an error of gRPC to ours, marked for `retrievers.net.retry`; None for any other error.

    Args:
        error: Error of the client.
        address: Address of the store, with the collection.
        store: The store.
        keyed: True if the request carried an API key.
    """
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

    if isinstance(error, ResourceExhaustedResponse):
        wait, message = float(error.retry_after_s), one_line(error.message)
        return refusal(store, address, "RESOURCE_EXHAUSTED", 429, message, retry_after_s=wait, keyed=keyed)
    code = getattr(error, "code", None)
    if not callable(code):
        return None
    name = str(getattr(code(), "name", code()))
    message = one_line(getattr(error, "details", str)())
    if name == "DEADLINE_EXCEEDED":
        return StoreTimeoutError(
            f"{address}: no answer in time over gRPC; raise store.timeout_s or look at the server"
        ).marked(transient=True, timed_out=True, away=True)
    if name == "UNAVAILABLE":
        return _unavailable(message, address, store)
    if name == "UNIMPLEMENTED":
        return StoreError(f"{address}: answered {name}: is store.grpc_port {store.grpc_port} Qdrant's port for gRPC?")
    return refusal(store, address, name, STATUSES.get(name, 0), message, retry_after_s=None, keyed=keyed)


def _unavailable(message: str, address: str, store: StoreConfig) -> StoreError:
    """Return the error for a server that cannot be reached; only gRPC's words show if that may pass."""
    port = f"port {store.grpc_port}"
    if "CERTIFICATE_VERIFY_FAILED" in message:
        return StoreError(
            f"{address}: its certificate on {port} is not trusted ({message}); name the authority that signed it in "
            "store.ca_file"
        )
    unencrypted = "WRONG_VERSION_NUMBER" in message
    lasting = unencrypted or ("DNS resolution failed" in message and "not known" in message)
    remedy = (
        f"{port} does not speak TLS: write http:// in store.url"
        if unencrypted
        else "is the server running, are store.url and store.grpc_port right?"
    )
    return StoreUnreachableError(f"{address}: cannot be reached over gRPC at {port} ({message}); {remedy}").marked(
        transient=not lasting, away=not lasting
    )
