"""A broker until the engines bring theirs; goes away with the merge of branch engines."""

import contextlib
import os
import signal
import subprocess


class LocalKafka:
    def __init__(self, folder):
        self.folder, self.bootstrap = folder, "127.0.0.1:29192"

    def start(self):
        up = ["bash", "/work/shared/engines/kafka/kafka_up.sh", str(self.folder), "29192", "29193"]
        subprocess.run(up, check=True, env={**os.environ, "KAFKA_LIBS": "/tmp/warm/kafka"})  # noqa: S108

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((self.folder / "kafka.pid").read_text()), signal.SIGKILL)

    def restart(self):
        self.kill()
        self.start()

    def create_topic(self, name, partitions=4):
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
