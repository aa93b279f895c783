"""The times that several parts of the stream agree on."""

FRESH_S = 5.0  # labels that arrived longer ago are a backlog
BACKLOG_EVERY_S = 30.0  # between two rounds of answers while there is one
SWEEPS = 16  # so many times in a ttl tasks are looked at that may close
SNAPSHOT_S = 120.0  # so long a snapshot is waited for
