"""The supervisor process: starts executors and keeps their leases. It runs no user code."""
