"""The commands that only read: sessions, tree, history, phases, alerts, lifecycles, policies."""
