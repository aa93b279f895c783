"""Peer methods to compare with, one a file."""
