"""The life of Reservations, as tests/integration/reservations tells it, beside kube-scheduler itself."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.controlplane import build

PROJECT = Path(__file__).parents[2]
SUITE = "tests/integration/reservations"


def test_reservations_live_beside_kube_scheduler() -> None:
    build.ensure(["etcd", "kube-apiserver", "kube-scheduler", "kubectl"])
    command = [sys.executable, "-m", "pytest", SUITE, "--control-plane=real", "-rs"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
