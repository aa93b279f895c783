"""What all tests share."""

import pytest
from crowd_kit_fixture import crowd_kit  # noqa: F401 - fixture
from engine_fixtures import flink, kafka, mark_engine_tests, postgres, prism  # noqa: F401 - fixtures
from hypothesis import settings

settings.register_profile("crowdbeam", deadline=None, derandomize=True)
settings.load_profile("crowdbeam")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_engine_tests(items)
