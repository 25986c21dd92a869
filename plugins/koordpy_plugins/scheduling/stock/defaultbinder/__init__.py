"""DefaultBinder: writes the Binding."""
