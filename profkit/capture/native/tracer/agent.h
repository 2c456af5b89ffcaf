/* What the tracer calls of the agent, in the thread that has made a call just now: how a thread is named, and, when a time has
 * come, a function that looks at the process. No event is received meanwhile.
 */
#ifndef PROFKIT_AGENT_H
#define PROFKIT_AGENT_H

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

struct table;

/* Ticks when agent_remind() is due; INT64_MAX for never. */
extern int64_t agent_due;

/* Whether there is an agent in this process that has not let go of it. */
extern bool agent_serving;

/* Have `name_of(ident)` called for the name of a thread, and `remind()` after so many seconds; it returns the seconds until
 * it is called again. */
void agent_serve(PyObject *name_of, PyObject *remind, double seconds);

/* In a forked child: the parent's agent is not called. */
void agent_forget(void);

/* Have `begin()` called when this process, a forked child, is about to make its first call; NULL for no longer. */
void agent_await_call(PyObject *begin);

/* In a process whose agent has not begun, something is called by `code`, or it is run: call what agent_await_call() has got, unless
 * the code is the agent's own. 1 if the agent has begun by that, 0 if not, -1 as agent_remind(). */
int agent_first_call(PyObject *code);

/* Ask for the name of the calling thread, whose table is new, until it has one. */
void agent_name_thread(struct table *table);

/* Do not ask for it until agent_name_again() is called, with what this returns. */
unsigned agent_name_later(struct table *table);
void agent_name_again(struct table *table, unsigned tries);

/* Have `function(begins)` called when a range begins or ends that opens windows; NULL for none. */
void agent_serve_ranges(PyObject *function);

/* Call that function in a thread that has the GIL; what it raises does not reach the target. */
void agent_range(bool begins);

/* Call what is due, in a thread with this table, or in the sampler's for NULL; -1 with an exception that is the target's, raised by a handler of a signal that came meanwhile. */
int agent_remind(struct table *table);

#endif
