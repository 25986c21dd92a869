"""How to call koordpy, in what commands print: also from a checkout whose environment is not active."""

import os
import shutil
import sys
from pathlib import Path


def koordpy() -> str:
    """Return `koordpy` where a shell finds this installation by that name, else the path of its script."""
    found, beside = shutil.which("koordpy"), Path(sys.executable).with_name("koordpy")
    if not beside.exists() or (found and Path(found).resolve() == beside.resolve()):
        return "koordpy"
    return relative(beside)


def python() -> str:
    """Return the path of the interpreter that runs this."""
    return relative(Path(sys.executable))


def relative(path: Path) -> str:
    """Return a path as it is called from the working directory, in full where it is not below that."""
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here
