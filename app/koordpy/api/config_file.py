"""Files that users name in settings and on the command line, as text."""

from pathlib import Path

from .config_model import ConfigError


def read(path: Path) -> str:
    """Return the text of a file.

    Raises ConfigError, which does not name the file yet, if it is not text; OSError.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"byte 0x{error.object[error.start]:02x} at position {error.start}"
        raise ConfigError(f"not text in UTF-8: {found}") from None
