"""Build the binaries of a real control plane from their Go modules.

Nothing is downloaded but Go modules: ``go.mod`` beside this file pins Kubernetes and etcd, ``go.sum``
verifies them. A cold build takes some six minutes on two cores; the binaries then stay in the user's cache
folder, in a folder named after the versions, so every later call only finds them.

``python -m tests.e2e.controlplane.build`` builds and prints the folder. Where ``KUBEBUILDER_ASSETS`` names a
folder with the binaries (as envtest lays them out), that folder wins and nothing is built.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

MODULE = Path(__file__).parent

PACKAGES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
"""Binary to Go package, the cheap ones first (they fill the compiler's cache for the dear ones)."""


class BinaryMissing(RuntimeError):
    """A binary of the control plane is neither there nor can it be built; the message says what to do."""


def module_version(path: str, module: Path = MODULE) -> str:
    """The version that go.mod requires of the module ``path``, such as ``v1.35.3``."""
    found = re.search(rf"^\s+{re.escape(path)} (v\S+)", (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise BinaryMissing(f"{module / 'go.mod'} does not require {path}")
    return found[1]


def cache_root() -> Path:
    """Where all built binaries live: the user's cache folder; not created by this call."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "koordpy" / "controlplane"


def cache_folder() -> Path:
    """Where the control plane's binaries live, by version; not created by this call."""
    version = f"{module_version('k8s.io/kubernetes')}-etcd-{module_version('go.etcd.io/etcd/server/v3')}"
    return cache_root() / version


def find(name: str) -> Path | None:
    """The executable ``name`` if it is there already: in ``KUBEBUILDER_ASSETS`` when set, or the cache."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    path = (Path(assets) if assets else cache_folder()) / name
    return path if path.is_file() and os.access(path, os.X_OK) else None


def ensure(names: Iterable[str] = PACKAGES) -> dict[str, Path]:
    """Paths of the named binaries; builds what is missing.

    Raises ``BinaryMissing`` for a binary that ``KUBEBUILDER_ASSETS`` should hold and does not, when there is
    no Go toolchain, or when the build fails.
    """
    return {name: find(name) or _build(name) for name in names}


def _build(name: str) -> Path:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        raise BinaryMissing(f"KUBEBUILDER_ASSETS={assets} has no executable {name!r}; unset it to build one")
    flags = version_flags(module_version("k8s.io/kubernetes"))
    return compile_binary(name, PACKAGES[name], MODULE, cache_folder(), flags)


def compile_binary(name: str, package: str, module: Path, folder: Path, linker_flags: str) -> Path:
    """Build the Go package ``package`` of the module in ``module`` as ``folder / name``.

    Raises ``BinaryMissing`` when there is no Go toolchain, or when the build fails.
    """
    go = shutil.which("go")
    if go is None:
        raise BinaryMissing(
            f"{name} is not built and there is no Go toolchain on PATH to build it: install Go 1.25 or "
            "newer, or set KUBEBUILDER_ASSETS to a folder with " + ", ".join(PACKAGES)
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes that find none, one builds it
        if not (folder / name).is_file():
            _compile(go, name, package, module, folder, linker_flags)
    return folder / name


def _compile(go: str, name: str, package: str, module: Path, folder: Path, linker_flags: str) -> None:
    print(f"building {name} in {folder} (minutes when cold)", file=sys.stderr, flush=True)
    fresh = folder / f".{name}.{os.getpid()}"
    command = [go, "build", "-mod=readonly", "-trimpath", f"-ldflags={linker_flags}", "-o", str(fresh)]
    try:
        # GOFLAGS of the user may ask for vendoring or VCS stamping, neither of which this module has.
        done = subprocess.run(
            [*command, package],
            cwd=module,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"},
            check=False,
        )
        if done.returncode != 0:
            raise BinaryMissing(f"building {name} failed (exit code {done.returncode}): see its output above")
        fresh.replace(folder / name)
    finally:
        fresh.unlink(missing_ok=True)


def version_flags(version: str) -> str:
    """Return the linker flags of a release build, which make `version` true of its binaries."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {p}.{key}={value}" for p in packages for key, value in stamps.items())])


def main() -> int:
    """Build everything; print the folder of the binaries. Exit code 1, with the reason, when that fails."""
    try:
        paths = ensure()
    except BinaryMissing as error:
        print(error, file=sys.stderr)
        return 1
    print(paths["kube-apiserver"].parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
