"""The plugin Coscheduling: pods of a gang are scheduled together, or none of them."""
