"""Texts of limited length."""


def cut(text: str, most: int = 2048) -> str:
    """Return a text of at most `most` characters; a note ends one that was longer."""
    if len(text) <= most:
        return text
    note = f"... ({len(text)} characters)"
    return text[: most - len(note)] + note
