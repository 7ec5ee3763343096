"""Rules about approvals."""
