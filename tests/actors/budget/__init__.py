"""Rules about the budget's ledger."""
