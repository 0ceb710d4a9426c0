"""The command `holdfast`, and the entries of the processes that a worker starts."""
