"""Files shipped with the program: manifests and configuration from `deploy/`.

In an installed wheel they are inside the package; in a checkout they are in `deploy/`.
"""

from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parent


def deploy(*parts: str) -> Path:
    """Return the path of a file or folder of `deploy/`. Raises FileNotFoundError naming it."""
    for root in (_PACKAGE / "deploy", _PACKAGE.parent.parent / "deploy"):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"deploy/{'/'.join(parts)} is not part of this installation")


def documents(*parts: str) -> list[dict[str, Any]]:
    """Return the objects in a file of `deploy/`. Raises FileNotFoundError naming it."""
    # Not for processes that only look for a file.
    from koordpy.lib.text_documents import read_all_yaml

    return [d for d in read_all_yaml(deploy(*parts).read_bytes()) if d]
