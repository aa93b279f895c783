"""A sink that goes away is waited for: nothing is lost, nothing is written twice."""

import time

from fault_runs import Load, Scene, Watched, assert_exact
from stream_runs import make_events

N_EVENTS = 60_000
AWAY_S = 20.0


def test_postgres_may_be_away_for_a_while(request, kafka, postgres, prism, tmp_path):
    scene = Scene.of(request, kafka, postgres, tmp_path)
    events = make_events(N_EVENTS)
    with scene.stream(prism.beam_args(streaming=True)) as run, Watched(scene) as watched:
        sent = Load(scene, events)
        run.wait(lambda status: 0 < status["events"] < N_EVENTS // 2, "first events")
        postgres.stop()
        try:
            began = time.monotonic()
            sent.wait(N_EVENTS)
            time.sleep(max(0.0, began + AWAY_S - time.monotonic()))
        finally:
            postgres.start()
        sent.finish()
        assert_exact(scene, run, events)
        assert run.drain() == 0
    assert watched.looks
    assert not watched.fallen
