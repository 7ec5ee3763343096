"""One call of a tool: judged by a policy, approved where it must be, run, and answered once."""
