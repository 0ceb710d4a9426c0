"""Entry points of the processes that a worker starts."""
