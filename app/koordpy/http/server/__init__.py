"""The HTTP server: listeners with TLS, limits, graceful shutdown, and a fast path past ASGI."""
