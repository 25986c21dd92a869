"""Build every Go binary that the end-to-end tests run: the control plane's, Helm and the newest kubectl.

``python -m tests.e2e.build`` builds what is missing and prints the paths. Exit code 1, with the reason, when
that fails.
"""

import sys

from tests.e2e.controlplane import build as controlplane
from tests.e2e.helm import build as helm
from tests.e2e.kubectl import build as kubectl


def main() -> int:
    """Build one after another: the control plane fills the compiler's cache for Helm."""
    try:
        paths = [*controlplane.ensure().values(), helm.ensure(), kubectl.ensure()]
    except controlplane.BinaryMissing as error:
        print(error, file=sys.stderr)
        return 1
    for path in paths:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
