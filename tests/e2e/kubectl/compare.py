"""Runs the commands of a story, and makes what they print comparable between clusters."""

import base64
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.kubectl.documents import FILES
from tests.eventually import PATIENCE

Replacement = str | Callable[[re.Match[str]], str]

# Years of the stories' own events; times of other years are those of the run.
_OWN_YEARS = ("2023", "2024")

_CHANGING: list[tuple[str, Replacement]] = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (
        r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
        lambda found: found[0] if found[0].startswith(_OWN_YEARS) else "TIME",
    ),
    (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
    (r'(resourceVersion"?: ?)"?\d+"?', r"\1REVISION"),
    (r"https?://127\.0\.0\.1:\d+", "SERVER"),
    (r"\b10\.(0\.0|96\.\d+)\.\d+\b", "ADDRESS"),
    (r"(?<=[:\s])3[0-2]\d{3}(?=/TCP|\s)", "PORT"),
    (r"(?<=[\s(])(\d+m)?\d+s(?=[\s)]|$)", "AGE"),
    (r"\d+y\d+d", "AGE"),
    (r"debugger-\w+", "debugger-RANDOM"),
    (r"/tmp/[^\s/]+", "TMP"),
    (r"(?m)^[IEW]\d{4} \S+ +\d+ ", "LOG "),
    (r"[ \t]+", " "),
    (r"-{4,}", "----"),
]


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code, and what it printed."""

    code: int
    output: str
    errors: str

    @property
    def form(self) -> str:
        """What was printed, without what differs between two runs."""
        return f"{comparable(self.output)}\n{comparable(self.errors)}".strip()

    @property
    def gist(self) -> tuple[int, str]:
        """The exit code and the first word."""
        return self.code, (re.split(r"[\s,.:]", self.form.lstrip('{" '), maxsplit=1) or [""])[0][:4]


def comparable(text: str) -> str:
    """Replace what differs between two runs: times, random names, addresses, versions, widths of columns."""
    for pattern, replacement in _CHANGING:
        text = re.sub(pattern, replacement, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


class Client:
    """kubectl, as the user of one cluster, in a folder with the stories' files."""

    def __init__(self, binary: Path, kubeconfig: Path, folder: Path) -> None:
        self._binary, self._folder = binary, folder
        folder.mkdir(parents=True)
        request = _signing_request()
        for name, text in FILES.items():
            (folder / name).write_text(text.replace("REQUEST", request))
        self._environment = {
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "KUBE_EDITOR": "sed -i s/registry.test.one:2/registry.test.one:3/",
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
        }

    def run(self, *args: str) -> Outcome:
        """Run one command."""
        done = subprocess.run(
            [str(self._binary), *args],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def tell(self, name: str, story: str) -> list[tuple[str, Outcome]]:
        """Run all commands of a story, in a new namespace; return each line with its outcome."""
        namespace = f"story-{name}"
        self.run("create", "namespace", namespace)
        lines = [line.strip() for line in story.strip().splitlines()]
        commands = (shlex.split(line.removeprefix("~")) for line in lines)
        outcomes = (self.run("--namespace", namespace, *command) for command in commands)
        return list(zip(lines, outcomes, strict=True))


def _signing_request() -> str:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
