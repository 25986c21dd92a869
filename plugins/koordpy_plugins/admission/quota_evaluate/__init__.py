"""Admit a pod only if its requests do not exceed its quota, and charge the quota for it."""
