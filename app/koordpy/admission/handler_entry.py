"""A handler in the configuration; apart from the handlers, so that every process can read its settings."""

from typing import Any

from koordpy.api.config_model import ConfigModel


class HandlerEntry(ConfigModel):
    """A handler to run: its arguments, and the handler before which it runs (default: last)."""

    name: str
    args: dict[str, Any] = {}
    before: str | None = None
