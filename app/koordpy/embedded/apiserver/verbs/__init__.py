"""What can be done with objects: a module for each verb, and for each subresource with a way of its own."""
