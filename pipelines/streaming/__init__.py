"""The stages of the stream."""
