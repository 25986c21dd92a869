"""Files that come with the program: manifests and shipped configuration from `deploy/`.

In an installed wheel they are below the package; in a checkout they are where people look for them.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def deploy(*parts: str) -> Path:
    """Return the path of a file or folder of `deploy/`. Raises FileNotFoundError naming it."""
    for root in (_PACKAGE / "deploy", _PACKAGE.parent.parent / "deploy"):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"deploy/{'/'.join(parts)} is not part of this installation")
