"""The engines do what tests and demos need: they serve, break and come back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from engines.errors import EngineError
from engines.kafka import Kafka
from engines.postgres import Postgres
from engines.processes import wait_until

ROOT = Path(__file__).parents[2]
psycopg = pytest.importorskip("psycopg")


def first_value(kafka, topic):
    """The value of the first message of a topic."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return consumer.poll(30).value()
    finally:
        consumer.close()


def test_kafka_keeps_what_it_took_when_it_is_killed(kafka):
    kafka.create_topic("kept", partitions=2, cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce("kept", b"value", b"key")
    assert producer.flush(30) == 0
    del producer
    address = kafka.bootstrap
    kafka.restart()
    assert kafka.bootstrap == address
    assert first_value(kafka, "kept") == b"value"


def test_a_port_that_is_taken_is_told(kafka, tmp_path):
    with pytest.raises(EngineError, match=f"Something listens at port {kafka.port} already"):
        Kafka(tmp_path, kafka.port).start()


def test_postgres_goes_on_with_its_data_after_a_stop(postgres):
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("create table kept (n int)")
        connection.execute("insert into kept values (7)")
    postgres.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres.dsn)
    postgres.start()
    with psycopg.connect(postgres.dsn) as connection:
        assert connection.execute("select n from kept").fetchone() == (7,)


def test_two_servers_do_not_meet(postgres, tmp_path):
    with Postgres(tmp_path / "other") as other:
        assert other.dsn != postgres.dsn
        with psycopg.connect(other.dsn) as connection:
            assert connection.execute("select count(*) from pg_tables where tablename = 'kept'").fetchone() == (0,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server that root starts has a folder of its own")
def test_the_own_folder_of_a_server_goes_with_a_process_that_is_killed(postgres, tmp_path):
    code = f"""
import time
from engines.postgres import Postgres
server = Postgres({str(tmp_path / "server")!r})
server.start()
print(server.folder, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        own = Path(process.stdout.readline().strip())
        assert (own / "data" / "PG_VERSION").exists()
        process.kill()
    assert wait_until("the end of the folder", lambda: not own.exists(), 30)
