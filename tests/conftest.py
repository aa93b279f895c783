"""What all tests share."""

import pytest
from beam_environments import beam_gcp, beam_yaml  # noqa: F401 - fixtures
from crowd_kit_fixture import crowd_kit  # noqa: F401 - fixture
from engine_fixtures import flink, kafka, mark_engine_tests, postgres, prism  # noqa: F401 - fixtures
from hypothesis import settings

collect_ignore_glob = ["environments/*_script.py"]  # only their own environments can import them

settings.register_profile("crowdbeam", deadline=None, derandomize=True)
settings.load_profile("crowdbeam")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_engine_tests(items)
