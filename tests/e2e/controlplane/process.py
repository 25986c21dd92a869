"""One server process of the control plane: started with its log in a file, stopped by its handle.

No process outlives the one that started it: the kernel kills it when the parent dies (Linux), so a killed
test run leaves nothing behind. Each process has its own session, so that Ctrl-C reaches only the parent,
which then stops its processes in order.
"""

import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class ProcessFailed(RuntimeError):
    """A process ended by itself or did not become ready in time; the message holds the end of its log."""


class Process:
    """A running server. ``name`` appears in messages and names the log file in ``folder``.

    Start it on a thread that lives as long as the process should: on Linux the end of that thread ends it.
    """

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
                preexec_fn=_die_with_parent if _LIBC else None,
            )

    @property
    def pid(self) -> int:
        """The process id, for measurements (CPU time, resident memory)."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._child.poll() is None

    def wait_ready(self, ready: Callable[[], bool], seconds: float = 120.0) -> None:
        """Poll ``ready`` until it holds; raises ``ProcessFailed`` when the process ends or time is up
        first.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise ProcessFailed(
                    f"{self.name} ended with code {self._child.returncode}\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.name} was not ready in {seconds:g} s\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the log, headed by its path."""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- {self.log}", *text[-lines:]])

    def stop(self, seconds: float = 10.0) -> None:
        """End it: SIGTERM, and SIGKILL when it is still there after ``seconds``. Does nothing when it is
        gone.
        """
        if self.running:
            self._child.terminate()
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self._child.kill()
        self._child.wait()


_HELD: list[socket.socket] = []


def free_port() -> int:
    """A TCP port of 127.0.0.1 without a listener, reserved while this process lives.

    Between now and the moment that a server listens there, or is started again there, the kernel would give
    the port to the next connection or to another test. So it stays bound here, without listening: servers
    (which all set SO_REUSEADDR) may still listen on it, and until one does, connections are refused.
    """
    probe = socket.socket()
    if sys.platform == "linux":  # elsewhere no process could listen there while it is held
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _HELD.append(probe)
    probe.bind(("127.0.0.1", 0))
    port = int(probe.getsockname()[1])
    if probe not in _HELD:
        probe.close()
    return port


def _die_with_parent() -> None:
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
