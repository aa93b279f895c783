"""A sink that goes away is waited for: nothing is lost, nothing is written twice."""

import time

from fault_runs import Scene, Watched, assert_exact, load
from stream_runs import make_events

N_EVENTS = 60_000
AWAY_S = 20.0


def test_postgres_may_be_away_for_a_while(request, kafka, postgres, prism, tmp_path):
    scene = Scene.of(request, kafka, postgres, tmp_path)
    events = make_events(N_EVENTS)
    with scene.stream(prism.beam_args(streaming=True)) as run, Watched(scene) as watched, load(scene, events) as sent:
        run.wait(lambda status: status["events"] > 0, "first events")
        sent.wait(N_EVENTS // 4)
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
