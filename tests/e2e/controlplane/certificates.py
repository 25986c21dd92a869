"""A throw-away certificate authority, so that tests verify TLS instead of switching it off.

The control plane uses one for kube-apiserver, webhook servers under test one for themselves (its ``pem`` is
then the ``caBundle`` of the webhook configuration).
"""

from datetime import UTC, datetime
from pathlib import Path

from koordpy.lib import certificates


class Authority:
    """A certificate authority that lives as long as the object; ``pem`` is its certificate."""

    def __init__(self, name: str = "koordpy tests") -> None:
        self._ca = certificates.make_ca(name, datetime.now(UTC))
        self.pem = self._ca.cert

    def issue(self, folder: Path, *hosts: str) -> tuple[Path, Path]:
        """Write ``tls.crt`` and ``tls.key`` for a server on ``hosts`` (names or addresses) into
        ``folder``.
        """
        server = certificates.issue(self._ca, hosts, datetime.now(UTC))
        folder.mkdir(parents=True, exist_ok=True)
        certificate_file, key_file = folder / certificates.SERVER_CERT, folder / certificates.SERVER_KEY
        certificate_file.write_bytes(server.cert)
        key_file.write_bytes(server.key)
        return certificate_file, key_file
