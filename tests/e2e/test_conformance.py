"""The conformance suite of tests/integration/apiserver against kube-apiserver itself.

The suite says what koordpy's embedded API server must do; this run keeps the suite honest. It starts a
control plane of its own.
"""

import subprocess
import sys
from pathlib import Path

from tests.e2e.controlplane import build

PROJECT = Path(__file__).parents[2]


def test_kube_apiserver_passes_the_conformance_suite() -> None:
    build.ensure(["etcd", "kube-apiserver", "kubectl"])
    command = [sys.executable, "-m", "pytest", "tests/integration/apiserver", "--control-plane=real", "-rs"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
