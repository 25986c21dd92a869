"""MigrationController: evict pods through PodMigrationJobs."""
