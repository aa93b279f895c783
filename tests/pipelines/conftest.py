"""What the tests of the pipelines share."""

import pytest

from pipelines.sources import avro, csv, folder, jsonl, parquet


@pytest.fixture(params=["whole", "in small pieces"])
def small(request, monkeypatch):
    """Runs a test twice: with a file in one block, and in many."""
    if request.param == "in small pieces":
        monkeypatch.setattr(csv, "BLOCK_BYTES", 700)
        monkeypatch.setattr(jsonl, "BLOCK_BYTES", 300)
        monkeypatch.setattr(avro, "CHUNK_BYTES", 300)
        monkeypatch.setattr(parquet, "ROWS_PER_PART", 100)
    return request.param != "whole"


@pytest.fixture
def listed_at_every_poll(monkeypatch):
    """Has readers of folders see what is new in the next poll, not in that of the next second."""
    monkeypatch.setattr(folder, "LIST_S", 0.0)
