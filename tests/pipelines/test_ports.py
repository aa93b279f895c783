"""Ports for programs that a stream, or a test, starts."""

import socket
from pathlib import Path

from pipelines.ports import LOOPBACK, answers, free_port


def test_a_free_port_is_free_and_not_one_of_outgoing_connections():
    port = free_port()
    assert not answers(port)
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert port < first


def test_a_port_answers_while_somebody_listens_at_it():
    port = free_port()
    with socket.create_server((LOOPBACK, port)):
        assert answers(port)
    assert not answers(port)
