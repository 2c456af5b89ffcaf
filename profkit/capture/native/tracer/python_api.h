/* Python.h for all builds: PROFKIT_ABI3 for every CPython from 3.12 on (headers of 3.10 or 3.11); with
 * PROFKIT_FREE_THREADED, for the free-threaded interpreter of the headers (3.13 on), which samples only; else for
 * the interpreter of the headers, 3.8 to 3.11. */
#ifndef PROFKIT_PYTHON_API_H
#define PROFKIT_PYTHON_API_H

#define PY_SSIZE_T_CLEAN
#if defined(PROFKIT_ABI3) && !defined(PROFKIT_FREE_THREADED)
#define Py_LIMITED_API 0x030A0000
#endif
#include <Python.h>

#if !defined(PROFKIT_ABI3) && (PY_VERSION_HEX < 0x03080000 || PY_VERSION_HEX >= 0x030C0000)
#error "without PROFKIT_ABI3 the tracer is for CPython 3.8 to 3.11"
#endif
#if defined(Py_GIL_DISABLED) != defined(PROFKIT_FREE_THREADED)
#error "the headers of a free-threaded interpreter are for its own tracer, and no others"
#endif

/* Exported, but not in the limited API's headers. */
extern int PyGILState_Check(void);

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif
