"""Feeding: the script to a Kafka topic, so many events a second, from a thread."""

import json
import threading
import time

from confluent_kafka import KafkaException, Producer

from examples.stream_demo.crowd import Script, broken_messages, message_of, task_name

_STEP_S = 0.05
_BROKEN_EVERY_S = 1.5
_FLUSH_S = 30.0


class Feeder(threading.Thread):
    """Sends the events of a script, a broken message among them now and then.

    Attributes:
        n_sent: messages sent, broken ones included.
        n_broken: broken ones among them.
        done: whether it sends no more.
        error: why not everything was sent, if so.
    """

    def __init__(self, bootstrap: str, topic: str, script: Script, rate: float) -> None:
        super().__init__(name="feeder", daemon=True)
        self._servers, self._topic, self._script, self._rate = bootstrap, topic, script, rate
        self._ended = threading.Event()
        self.n_sent = self.n_broken = 0
        self.done = False
        self.error = ""

    def end(self) -> None:
        """Sends no more."""
        self._ended.set()

    def run(self) -> None:
        """Sends everything; whatever goes wrong, those who wait for the end are told."""
        failure = "The thread that sends the labels has failed."
        try:
            failure = self._feed()
        except (KafkaException, BufferError) as error:
            failure = f"Kafka does not take the labels: {error}."
        finally:
            self.error, self.done = failure, True

    def _feed(self) -> str:
        """Sends a little every moment, so that the rate is even; gives what went wrong, if anything."""
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 20, "log_level": 2})
        began = time.monotonic()
        at, broken_at = 0, began
        while at < len(self._script) and not self._ended.wait(_STEP_S):
            now = time.monotonic()
            upto = min(int((now - began) * self._rate), len(self._script))
            self._send(producer, at, upto)
            at = upto
            if now >= broken_at:
                broken_at = now + _BROKEN_EVERY_S
                self._send_broken(producer)
            producer.poll(0)
        left = producer.flush(_FLUSH_S)
        return f"Kafka did not take {left} messages." if left and not self._ended.is_set() else ""

    def _send(self, producer: Producer, first: int, last: int) -> None:
        script, time_us = self._script, time.time_ns() // 1000
        columns = (getattr(script, name)[first:last].tolist() for name in ("task", "worker", "label", "op"))
        for number, (task, worker, label, op) in enumerate(zip(*columns, strict=True)):
            event = message_of(task, worker, label, op, time_us + number)
            producer.produce(self._topic, json.dumps(event), task_name(task))
        self.n_sent += last - first

    def _send_broken(self, producer: Producer) -> None:
        messages = broken_messages(time.time_ns() // 1000)
        producer.produce(self._topic, messages[self.n_broken % len(messages)])
        self.n_broken += 1
        self.n_sent += 1
