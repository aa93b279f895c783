"""The stateful stages of the stream: labels arrive, skills and answers stay current."""
