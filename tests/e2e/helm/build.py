"""Build Helm from the Go module beside this file; the binary then stays in the user's cache folder.

A module of its own, because Kubernetes' `replace` directives, which the control plane needs, do not suit
Helm. Its own `replace` directives name the control plane's releases of what both need: Go compiles a package
once for both only if all that the package imports is the same.
"""

import os
from pathlib import Path

from tests.e2e.controlplane import build

MODULE = Path(__file__).parent

_HELM = "helm.sh/helm/v3"


def ensure() -> Path:
    """Return the path of helm; builds it when it is missing. Raises `build.BinaryMissing`."""
    version = build.module_version(_HELM, MODULE)
    folder = build.cache_root() / f"helm-{version}"
    path = folder / "helm"
    if path.is_file() and os.access(path, os.X_OK):
        return path
    # The cluster version that `helm template` assumes is that of Helm's client library, as in its releases.
    minor = build.module_version("k8s.io/client-go", MODULE).split(".")[1]
    stamps = [f"-X {_HELM}/internal/version.version={version}"]
    for package in ("pkg/chartutil", "pkg/lint/rules"):
        stamps.append(f"-X {_HELM}/{package}.k8sVersionMajor=1 -X {_HELM}/{package}.k8sVersionMinor={minor}")
    return build.compile_binary("helm", f"{_HELM}/cmd/helm", MODULE, folder, " ".join(["-s -w", *stamps]))
