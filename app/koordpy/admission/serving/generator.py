"""Generate what a webhook server needs to serve TLS, and check existing certificates.

Names, keys (RSA) and lifetimes are Koordinator's, so that koord-manager and koordpy can take over each
other's Secret. Unlike there, validity begins before now, because the clocks of API servers may be behind.
Generating a key takes a tenth of a second: callers on an event loop use a thread.

Source: Koordinator, `pkg/webhook/util/generator/selfsigned.go`.
"""

from datetime import datetime, timedelta
from typing import Final

from koordpy.lib import certificates
from koordpy.lib.certificates import KeyPair, KeyType

from .artifacts import Artifacts

CA_NAME: Final = "webhook-cert-ca"

CA_RENEW_BEFORE: Final = timedelta(days=365)
"""An authority that expires sooner than this signs no new certificate."""


def generate(dns: str, now: datetime, old: Artifacts | None = None) -> Artifacts:
    """Generate a server certificate for a host name or IPv4 address (and `localhost`).

    The authority of `old` signs it if it is valid for another year, else a new one does. Raises
    CertificateError for an invalid host.
    """
    ca = None if old is None else KeyPair(old.ca_cert, old.ca_key)
    if ca is None or not certificates.can_sign(ca, now + CA_RENEW_BEFORE, [KeyType.RSA]):
        ca = certificates.make_ca(CA_NAME, now, KeyType.RSA)
    begins = certificates.begin_of(ca.cert)
    server = certificates.issue(ca, ["localhost", dns], now, name=dns, begins=begins)
    return Artifacts(ca.key, ca.cert, server.key, server.cert)


def problem(artifacts: Artifacts, dns: str, now: datetime) -> str:
    """Return why a certificate must be replaced: it is not valid for `dns` in half a year. Empty: valid."""
    missing = [name for name in ("key", "cert", "ca_cert") if not getattr(artifacts, name)]
    if missing:
        return f"{', '.join(missing).replace('_', ' ')} missing"
    until = certificates.months_later(now, certificates.MONTHS_AHEAD)
    return certificates.problem(KeyPair(artifacts.cert, artifacts.key), artifacts.ca_cert, [dns], until)
