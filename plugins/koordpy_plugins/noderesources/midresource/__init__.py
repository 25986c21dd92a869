"""Resources for mid pods."""
