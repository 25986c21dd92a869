"""The scheduling framework: extension points and the engine that runs them behind the extender verbs."""
