"""A certificate authority with a server certificate, and their names in Secrets and folders.

Koordinator stores six names; `key.pem` and `tls.key`, `cert.pem` and `tls.crt` are the same. Two more are
koordpy's: a replaced authority is trusted a little longer, because replicas and API servers do not learn of
the new one at the same time.

Source: Koordinator, `pkg/webhook/util/generator/certgenerator.go`, `writer/certwriter.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from koordpy.api.meta import format_time, parse_time
from koordpy.lib import certificates

CA_KEY: Final = certificates.CA_KEY
CA_CERT: Final = certificates.CA_CERT
KEY, CERT = "key.pem", "cert.pem"
TLS_KEY, TLS_CERT = certificates.SERVER_KEY, certificates.SERVER_CERT
PREVIOUS_CA, PREVIOUS_UNTIL = "previous-ca-cert.pem", "previous-ca-until"

PRIVATE: Final = frozenset({CA_KEY, KEY, TLS_KEY})

OVERLAP: Final = timedelta(minutes=10)
"""How long a replaced authority is trusted besides the new one."""


@dataclass(frozen=True)
class Artifacts:
    """What a webhook server needs to serve TLS and to renew its certificate, as PEM. A repr has no keys.

    `previous_cas` are replaced authorities; they are trusted until `previous_until`.
    """

    ca_key: bytes
    ca_cert: bytes
    key: bytes
    cert: bytes
    previous_cas: bytes = b""
    previous_until: datetime | None = None

    def __repr__(self) -> str:
        return f"Artifacts({len(self.cert)} bytes of certificate)"

    @classmethod
    def of(cls, data: Mapping[str, bytes]) -> "Artifacts":
        """Read the contents of a Secret or folder; a missing value is empty."""
        try:
            until = parse_time(data[PREVIOUS_UNTIL].decode())
        except (KeyError, ValueError):
            until = None
        return cls(
            data.get(CA_KEY, b""),
            data.get(CA_CERT, b""),
            data.get(KEY, b""),
            data.get(CERT, b""),
            data.get(PREVIOUS_CA, b""),
            until,
        )

    def files(self) -> dict[str, bytes]:
        """Return Koordinator's six names with their contents."""
        return {
            CA_KEY: self.ca_key,
            CA_CERT: self.ca_cert,
            KEY: self.key,
            TLS_KEY: self.key,
            CERT: self.cert,
            TLS_CERT: self.cert,
        }

    def data(self) -> dict[str, bytes]:
        """Return the contents of a Secret."""
        found = self.files()
        if self.previous_cas and self.previous_until is not None:
            found[PREVIOUS_CA] = self.previous_cas
            found[PREVIOUS_UNTIL] = format_time(self.previous_until).encode()
        return found

    def trusted(self, now: datetime) -> bytes:
        """Return the authorities to trust: the signing one, and for a while the previous ones."""
        if self.previous_until is None or now >= self.previous_until:
            return self.ca_cert
        return self.ca_cert.rstrip(b"\n") + b"\n" + self.previous_cas

    def trusts(self, ca_cert: bytes, now: datetime) -> bool:
        """Return whether an authority is among the trusted ones."""
        return ca_cert.strip() in self.trusted(now)

    def remembering(self, ca_cert: bytes, now: datetime) -> "Artifacts":
        """Return a copy with one more authority to trust for a while."""
        others = self.trusted(now)[len(self.ca_cert.rstrip(b"\n")) + 1 :]
        return replace(self, previous_cas=others + ca_cert.strip() + b"\n", previous_until=now + OVERLAP)
