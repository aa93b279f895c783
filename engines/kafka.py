"""Kafka: one broker that is its own controller, for tests and demos."""

import base64
import os
import subprocess
from pathlib import Path
from types import TracebackType

from engines.errors import EngineError
from engines.fetch import require
from engines.processes import Process, start, wait_until
from engines.programs import java
from pipelines.ports import LOOPBACK, answers, free_port

_START_S = 120
_TOPIC_S = 30.0
_JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = tuple(
    f"-Dorg.slf4j.simpleLogger.{name}"
    for name in (
        "defaultLogLevel=warn",
        "log.kafka.server.KafkaRaftServer=info",
        "log.org.apache.kafka.server.KafkaRaftServer=info",
    )
)
# The session is short, for a broker that was killed may not come back before the old one has run out.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=4
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


class Kafka:
    """A broker on loopback, with its data in a folder.

    As a context manager it runs inside the block; `start` and `stop` do the same by hand. A folder with data of an
    earlier broker is taken over as it is.

    Attributes:
        folder: data, settings, log.
        port: of the broker; of several in one test run each has its own.
        bootstrap: what a client takes as ``bootstrap.servers``.
    """

    def __init__(self, folder: Path | str, port: int = 0, *, guarded: bool = True) -> None:
        self.folder = Path(folder).absolute()
        self.port = port or free_port()
        self.bootstrap = f"{LOOPBACK}:{self.port}"
        self._controller = free_port()
        self._guarded = guarded
        self._broker: Process | None = None

    def __enter__(self) -> "Kafka":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the broker, and returns when it serves."""
        (libraries,) = require("kafka")
        if answers(self.port):
            raise EngineError(f"Something listens at port {self.port} already; stop it, or take another port.")
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        data = self.folder / "data"
        settings = {"host": LOOPBACK, "port": self.port, "controller": self._controller, "data": data}
        properties.write_text(_PROPERTIES.format(**settings), "utf-8")
        command = [java(), *_JVM, *_LOGGING, "-cp", f"{libraries}/*"]
        if not (data / "meta.properties").exists():
            _format(command, properties)
        self._broker = start("kafka", [*command, "kafka.Kafka", str(properties)], self.folder, guarded=self._guarded)
        try:
            wait_until(f"Kafka at {self.bootstrap}", self._serves, _START_S, [self._broker])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the broker in order; its data stays."""
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    def kill(self) -> None:
        """Kills the broker with SIGKILL."""
        if self._broker is not None:
            self._broker.kill()
            self._broker = None

    def restart(self) -> None:
        """Kills the broker with SIGKILL and starts it again, with the same port and data."""
        self.kill()
        self.start()

    def create_topic(self, name: str, partitions: int = 4, **config: str) -> None:
        """Makes a topic, and returns when every partition has a leader; `config` as ``cleanup_policy="compact"``."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(_TOPIC_S)

        def led() -> bool:
            found = admin.list_topics(timeout=5).topics.get(name)
            return found is not None and [p.leader for p in found.partitions.values()] == [1] * partitions

        wait_until(f"the topic {name}", led, _TOPIC_S)

    def _serves(self) -> bool:
        return self._broker is not None and b"Kafka Server started" in self._broker.log.read_bytes()


def _format(command: list[str], properties: Path) -> None:
    """Makes the storage of a new cluster."""
    raw = os.urandom(16)
    cluster = base64.urlsafe_b64encode(bytes([raw[0] & 0x7F]) + raw[1:]).decode()[:22]  # not with a leading dash
    words = [*command, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - the command is ours
    if done.returncode:
        raise EngineError(f"Kafka's storage cannot be made: {(done.stderr or done.stdout).strip()}")
