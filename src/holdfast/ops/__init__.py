"""What an operator does about failures: find them, group them, put many right at once, and prove it."""
