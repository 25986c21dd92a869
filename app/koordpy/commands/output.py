"""Output of commands: the same data as text, JSON or YAML.

Colour and progress are for terminals only; other output is plain text.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, cast

from koordpy.lib.counting import counted as counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Format = Literal["text", "json", "yaml"]

_WIDEST: Final = 4000
"""Characters per line of text that is not for a terminal."""

_BLANKS: Final = re.compile(r" +$", re.MULTILINE)

FORMATS: tuple[Format, ...] = ("text", "json", "yaml")


def console() -> "Console":
    """Return the console for standard output.

    Without a terminal, lines are never wrapped and have no trailing blanks.
    """
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    plain = cast(TextIO, _Trimmed())
    return Console(highlight=False, soft_wrap=True, width=_WIDEST, file=plain, color_system=None)


class _Trimmed:
    """Standard output without the trailing blanks of table lines."""

    def write(self, text: str) -> int:
        """Write text; rich writes whole lines."""
        return sys.stdout.write(_BLANKS.sub("", text))

    def flush(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()


def emit(value: Any, format_: Format, render: "Callable[[Console], None]") -> None:
    """Print a JSON-like value in a format; `render` prints the text format."""
    if format_ == "json":
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    elif format_ == "yaml":
        import yaml

        sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
    else:
        render(console())


def fitting(to: "Console", table: "Table", narrow: "Callable[[], Table]") -> "Table":
    """Return a table if the console is wide enough for it, else a narrow one."""
    wide = to.options.update(width=_WIDEST)
    return table if to.measure(table, options=wide).maximum <= to.width else narrow()
