/* Calls from the tracer into the agent, in the thread that has just made a call, such as to look at the process when
 * due. They make no events. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

struct table;

/* When agent_remind() is due, in ticks; INT64_MAX for never. */
extern int64_t agent_due;

/* Whether this process has an agent that has not let go of it. */
extern bool agent_serving;

/* Have threads named, and `remind()` called after so many seconds; it returns the seconds until its next call. */
void agent_serve(PyObject *remind, double seconds);

/* In a forked child, do not call the parent's agent. */
void agent_forget(void);

/* Have `begin()` called at this forked child's first call; NULL to cancel. */
void agent_await_call(PyObject *begin);

/* At a call in a process whose agent has not begun: call the function of agent_await_call(), unless `code` is the
 * agent's own. Return 1 if the agent began, 0 if not, -1 as agent_remind(). */
int agent_first_call(PyObject *code);

/* Give a table the name of its thread, if it has none and `threading` knows it. */
void agent_name_thread(struct table *table);

/* Have `function(begins)` called when a range that opens windows begins or ends; NULL for none. */
void agent_serve_ranges(PyObject *function);

/* Call that function in a thread that holds the GIL; its exceptions are dropped. */
void agent_range(bool begins);

/* Call what is due, in the thread of `table` or (NULL) the sampler's. Return -1 with an exception that a signal
 * handler of the target raised. */
int agent_remind(struct table *table);
