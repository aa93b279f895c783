"""A savepoint that an earlier layout of the state has left can be gone on from."""

import pytest
from fault_runs import Scene, assert_exact, restored, running_job
from saved_states import FOLDER, N_FIRST, TOPIC, history, unpacked
from stream_runs import produce


@pytest.mark.parametrize("name", sorted(file.name.removesuffix(".tar.gz") for file in FOLDER.glob("*.tar.gz")))
def test_a_stream_goes_on_from_a_savepoint_of_an_earlier_layout(name, kafka, postgres, flink, tmp_path):
    events, first = history()
    scene = Scene(f"{TOPIC}-{name}", kafka, postgres, tmp_path)
    produce(kafka.bootstrap, scene.name, first)
    scene.forget_messages()  # so that what they said can come from the savepoint only
    path = unpacked(name, tmp_path)
    try:
        with scene.stream([*flink.beam_args(), f"--savepoint_path={path}"]) as run:
            assert restored(flink, running_job(flink))["is_savepoint"]
            produce(kafka.bootstrap, scene.name, events.part(slice(N_FIRST, None)))
            assert_exact(scene, run, events)
            assert not scene.rejects()
            assert run.drain() == 0
    finally:
        flink.rest.cancel_all()
