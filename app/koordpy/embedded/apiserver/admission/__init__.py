"""Admission of every write before it is stored: built-in controllers, and webhooks."""
