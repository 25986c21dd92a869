"""The collector of the usage of the system: of all that is no pod and no host application."""
