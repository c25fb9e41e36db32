"""HTTP whose answers fit into memory; beside it which faults may pass, and how long requests are repeated."""

import time

import httpx

# Headers that describe the bytes on the wire, and are wrong for an answer that has been read and unpacked.
ENCODED = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class TooLargeError(Exception):
    """An answer is larger than was allowed; the rest of it was not read."""


def exchange(client: httpx.Client, request: httpx.Request, *, timeout_s: float, most_bytes: int) -> httpx.Response:
    """Send a request and read its answer.

    Args:
        client: The client.
        request: The request; its own timeouts are replaced.
        timeout_s: Seconds that each wait for the server may take, and in all the body.
        most_bytes: Largest answer, unpacked.

    Raises:
        httpx.HTTPError: It failed, or did not end in time.
        TooLargeError: The answer is larger.
    """
    request.extensions["timeout"] = httpx.Timeout(timeout_s).as_dict()
    ends, content = time.monotonic() + timeout_s, bytearray()
    response = client.send(request, stream=True)
    try:
        for part in response.iter_bytes():
            content += part
            if len(content) > most_bytes:
                raise TooLargeError(f"an answer of more than {most_bytes:,} bytes")
            if time.monotonic() > ends:
                raise httpx.ReadTimeout("the answer does not end", request=request)
    finally:
        response.close()
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in ENCODED]
    return httpx.Response(response.status_code, headers=headers, content=bytes(content), request=request)
