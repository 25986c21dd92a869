"""koordpy as the image has it: the tracked files alone, installed by the image's script into a fresh
environment, and run outside of the checkout.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.eventually import PATIENCE

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Installed:
    """An installation. Commands run in `work`, a folder of its own, with nothing of the caller's Python."""

    prefix: Path
    work: Path

    def command(self, name: str, *args: str | Path, seconds: float = PATIENCE) -> str:
        """Run a command of the installation and return what it printed; a failure shows it."""
        done = subprocess.run(
            [self.prefix / "bin" / name, *args],
            cwd=self.work,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, (
            f"{name} {' '.join(map(str, args))} ended with {done.returncode}:\n{done.stdout}"
        )
        return done.stdout

    def pip(self, *args: str | Path, seconds: float = PATIENCE) -> None:
        """Run this environment's pip on the installation, which has none."""
        command = [sys.executable, "-m", "pip", "--python", self.prefix / "bin" / "python", *args]
        subprocess.run(command, cwd=self.work, env=self.environment, timeout=seconds, check=True)

    def pip_command(self) -> Path:
        """Return a folder with a command `pip` for the installation, as in the environment of an author."""
        folder = self.work / "with-pip"
        folder.mkdir(exist_ok=True)
        script = folder / "pip"
        script.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m pip --python "{self.prefix}/bin/python" "$@"\n'
        )
        script.chmod(0o755)
        return folder

    @property
    def environment(self) -> dict[str, str]:
        """The caller's environment without anything that points Python or koordpy elsewhere."""
        dropped = ("PYTHON", "VIRTUAL_ENV", "KUBECONFIG", "KOORDPY")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        return {**kept, "HOME": str(self.work), "PYTHONDONTWRITEBYTECODE": "1"}

    @contextmanager
    def serving(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Run `koordpy serve` with these settings, from the moment that it is ready until the end."""
        config = self.work / "koordpy.yaml"
        config.write_text(yaml.safe_dump(dict(settings)))
        log = self.work / "serve.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.prefix / "bin" / "koordpy", "serve", "--config", config],
                cwd=self.work,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            ready = f"http://127.0.0.1:{settings['debug']['port']}/readyz"
            wait_for(lambda: answers(ready), lambda: process.poll() is None, log)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(timeout=PATIENCE) == 0, log.read_text()
            finally:
                process.kill()
                process.wait()


def install(folder: Path) -> Installed:
    """Install the tracked files of this checkout below a folder, as the Dockerfile does."""
    source, prefix, work = folder / "source", folder / "koordpy", folder / "work"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, check=True, stdout=subprocess.PIPE
    ).stdout
    for name in tracked.decode().split("\0"):
        if name and (PROJECT / name).exists():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, target, follow_symlinks=False)
    work.mkdir()
    script = source / "deploy" / "image" / "install.sh"
    done = subprocess.run(
        [script, source, prefix],
        cwd=work,
        env={**os.environ, "PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1100,  # packages come over the network, and are compiled
        check=False,
    )
    assert done.returncode == 0, done.stdout
    shutil.rmtree(source)  # what is installed must not need it
    return Installed(prefix, work)


def build_wheel(package: Path, folder: Path) -> Path:
    """Build the wheel of a package below a folder, with the build requirements that are installed here."""
    copy, wheels = folder / "package", folder / "wheels"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", wheels, copy], check=True)
    (wheel,) = wheels.glob("*.whl")
    return wheel


def answers(url: str) -> bool:
    """Whether a GET is answered with success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


def wait_for(
    holds: Callable[[], bool], alive: Callable[[], bool], log: Path, seconds: float = PATIENCE
) -> None:
    """Wait until something holds; fails with the log when the process ends or time is up first."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert alive(), f"it ended:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"it is not ready in time:\n{log.read_text()}"
        time.sleep(0.05)
