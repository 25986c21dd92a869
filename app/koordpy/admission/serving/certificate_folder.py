"""The folder that the listener serves its certificate from, and the certificates that live nowhere else.

Source: Koordinator, `pkg/webhook/util/writer/fs.go`. Unlike there, keys are readable by their owner only.
"""

import asyncio
import logging
from pathlib import Path

from koordpy.lib import certificates, published_folder
from koordpy.lib.certificates import CertificateError
from koordpy.lib.clock import Clock

from . import generator
from .artifacts import CA_CERT, CA_KEY, CERT, KEY, PRIVATE, TLS_CERT, Artifacts

log = logging.getLogger(__name__)


class CertificateFolder:
    """Where `mode: fs` keeps certificates; every renewal has an authority of its own."""

    def __init__(self, directory: Path, dns: str, clock: Clock) -> None:
        self.directory = directory
        self._dns, self._clock = dns, clock
        self._fresh: Artifacts | None = None

    async def obtain(self, serving: Artifacts | None) -> Artifacts:
        """Return certificates that are good for another half a year: the folder's, or new ones.

        New ones are not written: that is what publishing is for.
        """
        found = Artifacts.of(published_folder.read(self.directory, (CA_KEY, CA_CERT, KEY, CERT)))
        now = self._clock.now()
        for candidate in (found, self._fresh):
            if candidate is not None and not generator.problem(candidate, self._dns, now):
                return candidate
        fresh = await asyncio.to_thread(generator.generate, self._dns, now)
        if serving is not None and certificates.is_valid(serving.ca_cert, now):
            fresh = fresh.remembering(serving.ca_cert, now)
        log.info("%s: made a certificate for %s", self.directory, self._dns)
        self._fresh = fresh
        return fresh


def publish(directory: Path, artifacts: Artifacts, clock: Clock) -> bool:
    """Put the six files into a folder, all at once; return whether anything changed.

    Raises CertificateError when the folder cannot be written.
    """
    try:
        return published_folder.publish(directory, artifacts.files(), clock.now(), private=PRIVATE)
    except OSError as error:
        raise CertificateError(f"{directory}: the certificate cannot be written: {error}") from None


def check_is_ours(directory: Path) -> None:
    """Raise CertificateError for a folder with a certificate that was not generated here."""
    if (directory / TLS_CERT).exists() and not (directory / CA_KEY).exists():
        raise CertificateError(
            f"{directory} holds a {TLS_CERT} without {CA_KEY}: somebody else's certificate; set "
            "admission.certificates.mode to given, or admission.certDir to another folder"
        )
