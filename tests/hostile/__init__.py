"""Ten thousand hostile payloads, messages and answers, through every door."""
