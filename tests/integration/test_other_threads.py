"""Threads that `threading` has not started are traced as the others are, from their first call on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from profkit.model import Process
from tests.integration.capturing import PROGRAMS, calls, run_capture, script
from tests.integration.tracing import compiler
from tests.interpreters import BOTH_WAYS, EACH_WAY, interpreter
from tests.shared import finished

pytestmark = pytest.mark.interpreters

SOURCE = """
#include <pthread.h>
typedef int (*callback)(int);
struct job { callback call; int n; };
static void *run(void *given) {
    struct job *job = given;
    for (int i = 0; i < job->n; i++)
        job->call(i);
    return 0;
}
void call_from_thread(callback call, int n) {
    struct job job = {call, n};
    pthread_t thread;
    pthread_create(&thread, 0, run, &job);
    pthread_join(thread, 0);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that calls back from a thread of its own."""
    directory = tmp_path_factory.mktemp("library")
    (directory / "calls.c").write_text(SOURCE)
    words = [compiler(), "-shared", "-fPIC", "calls.c", "-o", "calls.so", "-pthread"]
    subprocess.run(words, cwd=directory, check=True)
    return str(directory / "calls.so")


def by_thread(process: Process, name: str) -> list[int]:
    """Calls of a function in each thread that has made any."""
    found = [calls(process, index).get(name, 0) for index in range(len(process.threads))]
    return [count for count in found if count]


@pytest.mark.parametrize("version", EACH_WAY[1:])
def test_every_call_in_threads_of_other_origin_is_there(tmp_path: Path, version: str, library: str) -> None:
    program = str(PROGRAMS / "other_threads.py")
    plain = finished([interpreter(version), program, library], check=True).stdout
    done = run_capture(tmp_path, interpreter(version), program, library)
    assert (done.returncode, done.stdout) == (0, plain), done.stderr
    main = done.run.processes[0]
    # A thread of C code may have a state of its own for each call.
    assert by_thread(main, "called") == by_thread(main, "inner") == [3000, 2000]
    assert by_thread(main, "by_hand") == [400, 400]
    # Those that `threading` starts have one table each, and nothing that never ended.
    assert by_thread(main, "by_thread") == [100, 100, 100]
    assert by_thread(main, "deep") == [20_001]
    assert all(not thread.open_calls for thread in main.threads)
    assert done.run.warnings == ()


AUDITED = """
import _thread, sys
asked = []
def objects(event, arguments):
    if event == "sys.setprofile":
        asked.append(_thread.get_ident())
        raise RuntimeError("no")
def hears(event, arguments):
    if event == "mine": print(*arguments)
def leaf(): pass
def alone():
    for _ in range(400): leaf()
    sys.audit("mine", "heard")
    print(asked.count(_thread.get_ident()) <= 1)
    done.release()
sys.addaudithook(globals()[sys.argv[1]])
done = _thread.allocate_lock()
done.acquire()
_thread.start_new_thread(alone, ())
done.acquire()
"""


@pytest.mark.parametrize("version", BOTH_WAYS)
def test_an_audit_hook_in_python_sees_threads_of_other_origin(tmp_path: Path, version: str) -> None:
    """Putting a profile function in asks the hook, which is itself called in that thread."""
    command = (interpreter(version), script(tmp_path, AUDITED), "hears")
    done = run_capture(tmp_path, *command, options=("--quiet",))
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\nTrue\n", "")
    assert calls(done.run.processes[0])["leaf"] == 400


@pytest.mark.parametrize("version", BOTH_WAYS)
def test_an_audit_hook_that_objects_is_asked_once_a_thread(tmp_path: Path, version: str) -> None:
    command = (interpreter(version), script(tmp_path, AUDITED), "objects")
    done = run_capture(tmp_path, *command, options=("--quiet",))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
