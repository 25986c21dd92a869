"""What descheduling plugins compute with."""
