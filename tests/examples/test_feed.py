"""The feeder of the stream's demo: whoever waits for it learns of its end, however it ends."""

from types import SimpleNamespace

import numpy as np
import pytest

from examples.stream_demo.crowd import write_script
from examples.stream_demo.feed import Feeder
from pipelines.ports import free_port

MORE_THAN_A_PRODUCER_HOLDS = 110_000


def test_a_feeder_whose_kafka_takes_nothing_ends_and_says_so():
    script = write_script(MORE_THAN_A_PRODUCER_HOLDS, 20, np.random.default_rng(0))
    feeder = Feeder(f"127.0.0.1:{free_port()}", "labels", script, rate=1e9)
    feeder.start()
    feeder.join()
    assert feeder.done
    assert feeder.error == "Kafka does not take the labels: Local: Queue full."


class BrokenScript(SimpleNamespace):
    def __len__(self):
        return 10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_feeder_that_fails_in_another_way_ends_and_says_so():
    feeder = Feeder(f"127.0.0.1:{free_port()}", "labels", BrokenScript(), rate=1e9)
    feeder.start()
    feeder.join()
    assert feeder.done
    assert feeder.error == "The thread that sends the labels has failed."
