"""Runs programs with some of the privileges of root: with single capabilities, in namespaces of their own.

A container of the DaemonSet runs as root with the capabilities that its manifest adds and no others; `run`
does the same with a Python program, on this machine.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.eventually import PATIENCE

_NUMBERS = {
    "DAC_OVERRIDE": 1,
    "KILL": 5,
    "NET_ADMIN": 12,
    "SYS_PTRACE": 19,
    "SYS_RESOURCE": 24,
    "PERFMON": 38,
}


def _possible(*command: str) -> bool:
    """Return whether this machine lets the tests run a command."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("setpriv", "unshare"))):
        return False
    return (
        subprocess.run([*command, "true"], capture_output=True, timeout=PATIENCE, check=False).returncode == 0
    )


_WITHOUT_CAPABILITIES = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")

needs_root = pytest.mark.skipif(
    not _possible("unshare", "--mount", "--pid", "--fork", "--mount-proc", *_WITHOUT_CAPABILITIES),
    reason="privileges can only be taken from root, by setpriv and unshare",
)


def held(capability: str) -> bool:
    """Return whether this process has a capability itself, so that it can be passed on."""
    with open("/proc/self/status", encoding="ascii") as file:
        mask = int(file.read().partition("CapEff:")[2].split()[0], 16)
    return bool(mask >> _NUMBERS[capability] & 1)


def as_root_without_capabilities() -> list[str]:
    """Return what starts a command as root with no capability; nothing where that cannot be done."""
    return [*_WITHOUT_CAPABILITIES] if _possible(*_WITHOUT_CAPABILITIES) else []


def run(
    program: str,
    *args: object,
    capabilities: Sequence[str] = (),
    own_pids: bool = False,
    own_network: bool = False,
    read_only: str = "",
) -> str:
    """Run a Python program as root with these capabilities alone; return what it printed and logged.

    With `own_pids` it is in a PID namespace of its own, with `own_network` in a network of its own; with
    `read_only` that folder is mounted read-only.
    """
    added = "".join(f",+{name.lower()}" for name in capabilities)
    command = ["setpriv", "--inh-caps=-all", f"--bounding-set=-all{added}"]
    command += [sys.executable, "-c", program, *map(str, args)]
    if read_only:
        script = 'mount --rbind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, read_only, *command]
    if own_pids:
        command = ["unshare", "--pid", "--fork", "--mount-proc", *command]
    if own_network:
        command = ["unshare", "--net", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
