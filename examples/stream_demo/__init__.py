"""A stream to look at: a made-up crowd, a real broker, the real command, and how wrong its answers are, live."""
