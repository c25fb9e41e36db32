"""One request and its whole answer, bounded in time and in size."""

import httpx

from retrievers.net.bounded_client import within

# Headers that describe the bytes on the wire, and are wrong for an answer that has been read and unpacked.
ENCODED = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class TooLargeError(Exception):
    """An answer is larger than was allowed; the rest of it was not read."""


def exchange(client: httpx.Client, request: httpx.Request, *, timeout_s: float, most_bytes: int) -> httpx.Response:
    """Send a request and read its answer.

    Args:
        client: One that is `bounded`.
        request: The request; its own timeouts are replaced.
        timeout_s: Seconds from connecting to the last byte.
        most_bytes: Largest answer, unpacked.

    Raises:
        httpx.HTTPError: It failed, or did not end in time.
        TooLargeError: The answer is larger.
    """
    request.extensions["timeout"] = httpx.Timeout(timeout_s).as_dict()
    with within(timeout_s):
        response = client.send(request, stream=True)
        try:
            content = _content(response, most_bytes)
        finally:
            response.close()
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in ENCODED]
    phrase = {"reason_phrase": response.reason_phrase.encode()}
    return httpx.Response(response.status_code, headers=headers, content=content, request=request, extensions=phrase)


def _content(response: httpx.Response, most_bytes: int) -> bytes:
    parts, size = [], 0
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most_bytes:
        raise TooLargeError(f"an answer of {announced[:20]} bytes, more than {most_bytes:,}")
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise TooLargeError(f"an answer of more than {most_bytes:,} bytes")
    return b"".join(parts)
