"""The paper's tables and figure, one a file."""
