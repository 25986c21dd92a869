"""Quotas in `koordpy serve`."""
