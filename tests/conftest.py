"""What all tests share."""

from hypothesis import settings

settings.register_profile("crowdbeam", deadline=None, derandomize=True)
settings.load_profile("crowdbeam")
