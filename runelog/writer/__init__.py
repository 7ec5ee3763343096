"""The one writer of a log: appends are queued, written together and synced once (group commit)."""
