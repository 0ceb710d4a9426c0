"""Listeners that turn events into log lines and counters."""
