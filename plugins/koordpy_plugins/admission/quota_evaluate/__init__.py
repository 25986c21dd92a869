"""Admit a pod only if its quota has room for what it requests, and charge the quota for it."""
