"""The user's browser."""

from collections.abc import Mapping


def has_display(env: Mapping[str, str], platform: str) -> bool:
    """Return True where a browser has a window; one of the terminal would take it over."""
    return platform in ("darwin", "win32") or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))
