"""Build the newest kubectl from the Go module beside this file; the binary stays in the user's cache folder.

A module of its own, because the control plane's module pins the release of Kubernetes that koordpy is tested
with, and people's kubectl is newer. A cold build takes some one and a half minutes on two cores.
"""

import os
from pathlib import Path

from tests.e2e.controlplane import build

MODULE = Path(__file__).parent

_KUBECTL = "k8s.io/kubectl"


def version() -> str:
    """Return the release, such as `v1.37.2`."""
    return build.module_version(_KUBECTL, MODULE).replace("v0.", "v1.", 1)


def ensure() -> Path:
    """Return the path of kubectl; builds it when it is missing. Raises `build.BinaryMissing`."""
    folder = build.cache_root() / f"kubectl-{version()}"
    path = folder / "kubectl"
    if path.is_file() and os.access(path, os.X_OK):
        return path
    return build.compile_binary("kubectl", ".", MODULE, folder, build.version_flags(version()))
