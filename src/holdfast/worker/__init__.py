"""The worker: a supervisor process, its executor processes, and what they share."""
