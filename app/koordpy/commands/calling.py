"""How printed commands call koordpy, also from a checkout whose virtual environment is not active."""

import os
import shutil
import sys
from pathlib import Path


def koordpy() -> str:
    """Return `koordpy` if a shell finds this installation by that name, else the path of its script."""
    found, beside = shutil.which("koordpy"), Path(sys.executable).with_name("koordpy")
    if not beside.exists() or (found and Path(found).resolve() == beside.resolve()):
        return "koordpy"
    return relative(beside)


def python() -> str:
    """Return the path of the running interpreter."""
    return relative(Path(sys.executable))


def relative(path: Path) -> str:
    """Return a path relative to the working directory, or in full where it is not below it."""
    here = os.path.relpath(path)
    return str(path) if here.startswith("..") else here
