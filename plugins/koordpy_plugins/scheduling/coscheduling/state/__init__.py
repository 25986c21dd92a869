"""What is known of gangs: `gang`, `group` and `gang_cache`, and of the round in progress: `context`."""
