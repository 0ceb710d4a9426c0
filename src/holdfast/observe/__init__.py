"""What can be seen from outside: listeners that turn events into log lines and counts."""
