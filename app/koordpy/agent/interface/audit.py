"""The audit log of a node: what the agent did to it (koordlet's `pkg/koordlet/audit`)."""

from typing import Protocol


class Audit(Protocol):
    """Records what is done to the node. The executor records what it writes; nothing else need be."""

    def log(
        self,
        level: int,
        reason: str,
        message: str,
        *,
        type: str = "",
        namespace: str = "",
        name: str = "",
        container: str = "",
    ) -> None:
        """Record an event: 0 for evictions, 1 for what people will ask about, 3 for each write.

        `type` is what it is about: `node`, `pod`, `group` or `unknown`. Errors of the log are its own.
        """
        ...


class NoAudit:
    """Records nothing: the audit log is off."""

    def log(
        self,
        level: int,
        reason: str,
        message: str,
        *,
        type: str = "",
        namespace: str = "",
        name: str = "",
        container: str = "",
    ) -> None:
        """Do nothing."""
