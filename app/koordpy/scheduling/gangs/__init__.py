"""Jobs, whose pods are placed together: planned whole, and held until they are bound."""
