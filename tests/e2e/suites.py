"""Suites of tests/integration that run beside kube-scheduler too."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.controlplane import build

PROJECT = Path(__file__).parents[2]


def assert_passes(suite: str) -> None:
    """Run a suite on a control plane of its own. Raises AssertionError with its output if it fails."""
    build.ensure(["etcd", "kube-apiserver", "kube-scheduler", "kubectl"])
    command = [sys.executable, "-m", "pytest", suite, "--control-plane=real", "-rs"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
