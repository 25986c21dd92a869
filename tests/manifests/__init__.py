"""What `deploy/` installs, for tests: rendered manifests, and what their roles allow."""
