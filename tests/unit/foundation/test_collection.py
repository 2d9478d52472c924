"""The collector of cycles rests while a library is imported and at the interpreter's end."""

import subprocess
import sys

IMPORT = """
import gc
from securefg.foundation.collection import import_uncollected
phases = []
gc.callbacks.append(lambda phase, info: phases.append(phase))
import_uncollected("pydantic.v1")
print(len(phases), gc.isenabled(), gc.get_freeze_count() > 0)
gc.unfreeze()
import_uncollected("pydantic.v1")
print(gc.get_freeze_count())
"""
EXIT = """
import atexit, gc
from securefg.foundation.collection import skip_last_collection
atexit.register(lambda: print(gc.get_freeze_count() > 0))
skip_last_collection()
print(gc.get_freeze_count())
"""


def printed_lines(script: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_import_uncollected_runs_no_collection_and_happens_once():
    assert printed_lines(IMPORT) == ["0 True True", "0"]


def test_skip_last_collection_freezes_only_at_exit():
    assert printed_lines(EXIT) == ["0", "True"]
