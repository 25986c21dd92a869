"""What looks at every write before it is stored: built-in admission, and webhooks."""
