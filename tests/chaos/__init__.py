"""Random faults, an outside record, and a checker: `python -m tests.chaos --tasks 100000 --seed 7`."""
