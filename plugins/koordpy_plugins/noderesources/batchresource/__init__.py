"""Resources for batch pods."""
