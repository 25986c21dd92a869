"""Callers that are authenticated by TLS client certificates, as kube-scheduler presents one to its extenders.

Without a certificate of the right authority the TLS handshake fails, so nothing of the request is read.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ClientCertificates:
    """Which client certificates a listener accepts: signed by one of `authorities` (a PEM file) and, unless
    `names` is empty, with one of these common names.
    """

    authorities: Path
    names: Collection[str] = ()

    def problem(self, peer: Any) -> str | None:
        """Return why a caller is refused; `peer` is its verified certificate, as `ssl` decodes it."""
        if not self.names:
            return None
        parts = [pair for part in (peer or {}).get("subject", ()) for pair in part]
        found = [value for name, value in parts if name == "commonName"]
        if any(name in self.names for name in found):
            return None
        shown, expected = ", ".join(map(ascii, found)) or "no name", ", ".join(sorted(self.names))
        return f"the client certificate is for {shown}, expected {expected}"
