"""The collector of what best-effort pods may use, request and use."""
