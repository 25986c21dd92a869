"""What every write passes before it is stored: built-in admission, and webhooks."""
