# Starts profkit's agent in a target process, then steps aside: any other sitecustomize still runs, and the
# process finds neither this directory on sys.path nor this module in sys.modules. The syntax is that of every
# Python that a job script may start, 2.7 included; older ones than 3.8 are left alone.
import os
import sys


def _profkit_is_main():
    """Whether this is the main interpreter: no other one may set a handler, and nobody may set this one."""
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
    sys.modules.pop("sitecustomize", None)
    spool = os.environ.get("PROFKIT_SPOOL")
    session = None
    if spool and sys.version_info >= (3, 8) and not _profkit_is_main():
        try:
            open(os.path.join(spool, "%d.subinterpreter" % os.getpid()), "ab").close()
        except OSError:
            pass
    elif spool and sys.version_info >= (3, 8):
        name = "_profkit_agent"
        # Collections would find nothing in what is imported, and take a quarter of the time. The compiler alone needs
        # what is in `__future__`.
        new = [module for module in ("gc", "__future__") if module not in sys.modules]
        import gc

        collects = gc.isenabled()
        gc.disable()
        try:
            if "__future__" in new:
                sys.modules["__future__"] = type(sys)("__future__")
                sys.modules["__future__"].annotations = None
            package = type(sys)(name)
            package.__path__ = [os.path.dirname(here)]
            sys.modules[name] = package
            session = __import__(name + ".session", fromlist=["create"]).create(spool)
        except Exception:
            # The target must run as without profkit, whatever is wrong with the agent; that this process
            # has no record is seen by the launcher.
            session = None
        finally:
            for module in [m for m in sys.modules if m.partition(".")[0] == name] + new:
                sys.modules.pop(module, None)
            if collects:
                gc.enable()
    try:
        import sitecustomize  # noqa: F401  (the one that this file hides)
    finally:
        if session is not None:
            session.start()


_profkit_start()
