"""Whether the webhook server can be called as kube-apiserver calls it: over TLS, trusting only its authority.

A process that listens and has listed the cluster may still serve a certificate that kube-apiserver does not
accept. So readiness includes a real HTTPS request to `/healthz`. Any response counts.

Source: Koordinator, `pkg/webhook/util/health/checker.go`.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography import x509

from koordpy.lib import certificates
from koordpy.lib.http1 import HttpClient, HttpError

log = logging.getLogger(__name__)

PATH: Final = "/healthz"

FRESH: Final = 1.0
"""Seconds for which a response is reused: probes are frequent, and any client may send them."""

_RETRY: Final = 2.0
_WARN_AFTER: Final = 5.0
_TIMEOUT: Final = 3.0


class SelfCall:
    """Calls an address, trusting the authority in a folder.

    The certificate must be for `name`, by default the first name in the certificate. If the folder has no
    authority, the certificate was signed by an unknown one; then exactly this certificate is expected.
    `reload` makes the server load a new certificate before it is expected.
    """

    def __init__(
        self,
        url: Callable[[], str],
        directory: Path,
        *,
        name: str | None = None,
        reload: Callable[[], object] = lambda: None,
    ) -> None:
        self.problem: str | None = "the webhook server has not been called yet"
        """The error of the last call; None when it succeeded."""
        self._url, self._directory, self._name, self._reload = url, directory, name, reload
        self._called_at: float | None = None
        self._lock = asyncio.Lock()

    async def call(self) -> str | None:
        """Call, unless the last call was within a second; return the error, or None."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._called_at is None or loop.time() - self._called_at >= FRESH:
                self.problem = await self._call()
                self._called_at = loop.time()
        return self.problem

    async def until_answered(self) -> None:
        """Call every other second until there is a response."""
        loop = asyncio.get_running_loop()
        began, warned = loop.time(), False
        while (problem := await self.call()) is not None:
            if not warned and loop.time() - began >= _WARN_AFTER:
                warned = True
                log.warning("the webhook server does not respond: %s", problem)
            await asyncio.sleep(_RETRY)

    async def _call(self) -> str | None:
        self._reload()
        url = self._url()
        try:
            name = self._name or _first_name(self._directory)
            client = HttpClient(url, tls=self._trust(), server_hostname=name, connect_timeout=_TIMEOUT)
        except (OSError, ValueError, certificates.CertificateError) as error:  # ssl's are OSErrors
            return f"cannot read the certificates to trust: {error}"
        try:
            await client.request("GET", PATH, timeout=_TIMEOUT)
        except HttpError as error:
            return f"GET {PATH} as {name}: {error}"
        finally:
            await client.close()
        return None

    def _trust(self) -> ssl.SSLContext:
        """Trust the folder's present contents: they may have been replaced since the last call."""
        try:
            trusted = certificates.ca_bundle(self._directory)
        except certificates.CertificateError:
            trusted = (self._directory / certificates.SERVER_CERT).read_bytes()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=trusted.decode("ascii"))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # no stricter than kube-apiserver
        return context


def _first_name(directory: Path) -> str:
    """Return a name that the certificate is for. Raises ValueError, OSError."""
    path = directory / certificates.SERVER_CERT
    extensions = x509.load_pem_x509_certificate(path.read_bytes()).extensions
    for names in extensions:
        if isinstance(names.value, x509.SubjectAlternativeName):
            for kind in (x509.DNSName, x509.IPAddress):
                for name in names.value.get_values_for_type(kind):
                    return str(name).replace("*", "any", 1)
    raise ValueError(f"{path} names no host")
