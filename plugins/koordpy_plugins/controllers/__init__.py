"""Controllers of Koordinator's manager."""
