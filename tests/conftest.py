"""Settings of all tests: properties are never timed, since a slow machine is no counterexample."""

from hypothesis import settings

settings.register_profile("kofm", deadline=None)
settings.load_profile("kofm")
