"""How the demo is reached: its ports, a kubeconfig, and a file that says where everything is."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

CONTEXT: Final = "koordpy-demo"
"""The name of cluster, user and context in the kubeconfig."""

API_PORT: Final = 8001
"""The API server's port where it is free: that of `kubectl proxy`, which serves the same API."""

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True)
class Endpoints:
    """Where everything is. All fields but the last are URLs, or a path; they are empty for what is not there.

    `extender_headers` are the headers that a caller of the extender has to send.
    """

    kubeconfig: str
    api_server: str
    admission: str = ""
    extender: str = ""
    debug: str = ""
    worker: str = ""
    """The debug API of the worker."""
    extender_headers: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the fields as `--endpoints` writes them."""
        return {
            "kubeconfig": self.kubeconfig,
            "apiServer": self.api_server,
            "admission": self.admission,
            "extender": self.extender,
            "debug": self.debug,
            "worker": self.worker,
            "extenderHeaders": dict(self.extender_headers),
        }

    def write(self, path: Path) -> None:
        """Write the JSON file; a reader sees all of it or nothing. Raises OSError."""
        _write(path, json.dumps(self.document(), indent=2) + "\n")


def port_or_any(preferred: int) -> int:
    """Return a port of loopback if it is free, else 0, which means any."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, preferred))
        except OSError:
            return 0
    return preferred


def kubeconfig_path(port: int) -> Path:
    """Return the user's kubeconfig file for a demo on this port: no two demos share one."""
    root = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    name = "demo.kubeconfig" if port == API_PORT else f"demo-{port}.kubeconfig"
    return Path(root) / "koordpy" / name


def write_kubeconfig(path: Path, server: str) -> None:
    """Write a kubeconfig whose current context is the demo. Raises OSError."""
    named = {"name": CONTEXT}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [named | {"cluster": {"server": server}}],
        "users": [named | {"user": {}}],
        "contexts": [named | {"context": {"cluster": CONTEXT, "user": CONTEXT}}],
        "current-context": CONTEXT,
    }
    write_yaml(path, document)


def write_yaml(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file that only the user may read. Raises OSError."""
    _write(path, yaml.safe_dump(dict(document), sort_keys=False))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.chmod(0o600)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
