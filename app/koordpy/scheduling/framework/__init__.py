"""One profile at work: its plugins, called point by point in Koordinator's order."""
