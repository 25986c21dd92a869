"""What the node's kubelet is told about cgroups: its driver, and whether it writes memory protection itself.

With the feature MemoryQoS on cgroup v2 the kubelet writes `memory.min` and `memory.high` of pods and
containers. Two writers of one file undo each other's values, so the agent leaves these to the kubelet.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

MEMORY_QOS_FILES: Final = ("memory.min", "memory.low", "memory.high")

_FEATURE: Final = re.compile(r'^[\s{,]*"?MemoryQoS"?\s*:\s*"?(true|false)"?', re.MULTILINE | re.IGNORECASE)
_DRIVER: Final = re.compile(r'^\s*"?cgroupDriver"?\s*:\s*"?(systemd|cgroupfs)"?', re.MULTILINE)
_MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class Kubelet:
    """What is known of the node's kubelet; None is not known. `source` is where it was found."""

    memory_qos: bool | None = None
    cgroup_driver: str | None = None
    source: str = ""
    files: tuple[Path, ...] = ()
    """Where its configuration may be; later files override earlier ones."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Its command line, where its process is seen, which overrides all files."""

    @property
    def left_alone(self) -> dict[str, str]:
        """The files that are the kubelet's, with the reason."""
        if not self.memory_qos:
            return {}
        reason = f"the kubelet writes it, because its feature MemoryQoS is on ({self.source})"
        return dict.fromkeys(MEMORY_QOS_FILES, reason)


def find(kubelet_dir: Path, proc_root: Path) -> Kubelet:
    """Return what the kubelet's command line and configuration files say; the command line decides."""
    command, root = _command(proc_root)
    options = _options(command)
    files = [kubelet_dir / "config.yaml", *sorted((kubelet_dir / "config.json.d").glob("*.conf"))]
    named = options.get("config")
    if named:
        files.insert(0, root / named.lstrip("/"))
    drop_ins = options.get("config-dir")
    if drop_ins:
        files += sorted((root / drop_ins.lstrip("/")).glob("*.conf"))
    memory_qos: bool | None = None
    driver: str | None = None
    source = ""
    for file in files:
        text = _text(file)
        if (found := _FEATURE.search(text)) is not None:
            memory_qos, source = found[1].lower() == "true", str(file)
        if (found := _DRIVER.search(text)) is not None:
            driver = found[1]
    gates = options.get("feature-gates", "")
    for gate in gates.split(","):
        name, _, value = gate.partition("=")
        if name.strip() == "MemoryQoS":
            memory_qos, source = value.strip().lower() == "true", "its --feature-gates"
    return Kubelet(memory_qos, options.get("cgroup-driver") or driver, source, tuple(files), options)


def _command(proc_root: Path) -> tuple[list[str], Path]:
    """Return the kubelet's arguments and its root folder; none if its process is not seen."""
    try:
        names = [entry for entry in proc_root.iterdir() if entry.name.isdecimal()]
    except OSError:
        names = []
    for process in names:
        if _text(process / "comm").strip() == "kubelet":
            return _text(process / "cmdline").split("\0")[1:], process / "root"
    return [], Path("/")


def _options(arguments: list[str]) -> dict[str, str]:
    """Return the last value of each option, given as --name=value or --name value."""
    found: dict[str, str] = {}
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            found[name] = value if equals else following
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
