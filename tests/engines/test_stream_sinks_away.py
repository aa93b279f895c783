"""A sink that goes away is waited for: nothing is lost, nothing is written twice."""

import time

from fault_runs import Load, Scene, Watched, assert_exact
from stream_runs import make_events, produce

N_EVENTS, N_FIRST, N_BEFORE = 50_000, 2000, 8000
AWAY_S = 20.0


def test_postgres_may_be_away_for_a_while(request, kafka, postgres, prism, tmp_path):
    scene = Scene.of(request, kafka, postgres, tmp_path)
    events = make_events(N_EVENTS)
    first, others = events.split(N_FIRST)
    with scene.stream(prism.beam_args(streaming=True)) as run, Watched(scene) as watched:
        produce(kafka.bootstrap, scene.name, first)
        run.wait(lambda status: status["events"] == N_FIRST, "first events")
        sent = Load(scene, others)
        sent.wait(N_BEFORE)
        postgres.stop()
        try:
            began = time.monotonic()
            sent.finish()
            time.sleep(max(0.0, began + AWAY_S - time.monotonic()))
        finally:
            postgres.start()
        assert_exact(scene, run, events)
        assert run.drain() == 0
    assert watched.looks
    assert not watched.fallen
