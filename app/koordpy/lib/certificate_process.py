"""Certificates created by a process of their own: for processes that must stay small.

The library that creates them takes ten megabytes, which a process that imported it keeps for good.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from koordpy.lib.certificate_files import CertificateError

_SECONDS: Final = 60.0
_REFUSED: Final = 3
"""The exit code for errors that `certificates.ensure` raises."""


def ensure(directory: Path, hosts: Sequence[str], now: datetime, *, client: str | None = None) -> None:
    """Do what `certificates.ensure` does, in another process. Raises CertificateError."""
    arguments = json.dumps([str(directory), list(hosts), now.isoformat(), client])
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=arguments,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CertificateError(f"{directory}: no certificate can be created: {error}") from None
    if done.returncode == _REFUSED:
        raise CertificateError(done.stderr.strip())
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise CertificateError(f"{directory}: no certificate was created: {last or done.returncode}")


def main() -> int:
    """Create what standard input asks for; return the exit code."""
    from koordpy.lib import certificates

    directory, hosts, now, client = json.load(sys.stdin)
    try:
        certificates.ensure(Path(directory), hosts, datetime.fromisoformat(now), client=client)
    except (CertificateError, OSError) as error:
        print(error, file=sys.stderr)
        return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
