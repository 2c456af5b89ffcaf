# Starts profkit's agent in a target process, then steps aside: any other sitecustomize still runs, and
# neither this directory nor this module stays in sys.path or sys.modules. The syntax must suit every Python
# that a job may start, 2.7 included; versions before 3.8 are left alone.
import os
import sys

try:
    from _imp import _fix_co_filename as _profkit_rename
except ImportError:

    def _profkit_rename(code, name):
        pass


_profkit_rename(sys._getframe().f_code, "<frozen profkit.sitecustomize>")


def _profkit_is_main():
    """Whether this is the main interpreter: in others, signal() raises ValueError."""
    import _signal

    try:
        _signal.signal(_signal.SIGKILL, _signal.SIG_DFL)
    except ValueError:
        return False
    except (AttributeError, OSError):
        pass
    return True


def _profkit_start():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    sys.path_importer_cache.pop(here, None)
    itself = sys.modules.pop("sitecustomize", None)  # noqa: F841 (Python 2 empties a module that nobody holds)
    spool = os.environ.get("PROFKIT_SPOOL")
    session = None
    if spool and sys.version_info >= (3, 8) and not _profkit_is_main():
        try:
            open(os.path.join(spool, "%d.subinterpreter" % os.getpid()), "ab").close()
        except OSError:
            pass
    elif spool and sys.version_info >= (3, 8):
        agent = os.path.dirname(here)
        try:
            from _frozen_importlib_external import SourceFileLoader

            source = SourceFileLoader("loader", agent + "/loader.py")
            try:
                code = source.get_code("loader")
            except (EOFError, TypeError, ValueError):  # truncated bytecode
                code = source.source_to_code(source.get_data(source.path), source.path)
            _profkit_rename(code, "<frozen profkit.loader>")
            names = {}
            exec(code, names)
            session = names["load"](agent, "session", lambda module: module.create(spool), spool)
        except Exception:
            # The target must run whatever is wrong with the agent. The launcher sees that this process has no
            # record.
            session = None
    try:
        # Import the sitecustomize that this file hides.
        machinery = sys.modules.get("_frozen_importlib")
        if machinery is None:
            import sitecustomize  # noqa: F401
        else:  # `-X importtime` would print a second line for an import statement
            machinery._gcd_import("sitecustomize")
    finally:
        if session is not None:
            session.start()


try:
    _profkit_start()
finally:
    del _profkit_start, _profkit_is_main, _profkit_rename  # else this module lives until a collection
