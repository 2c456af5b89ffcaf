/* Ranges begin and end: the collector of NVTX reports it, and functions inside are charged to them (ranges.h). The
 * agent is told of the ranges that open windows. */
#pragma once

#include "python_api.h"

#include <stdbool.h>
#include <stdint.h>

struct table;

/* Load the collector at this path and have it report ranges to the tracer; false if impossible. */
bool range_events_follow(const char *path);

/* Close all ranges when tracing ends, after charging what ran until `now`; where the tier changes they stay open. */
void range_events_close_all(struct table *table, int64_t now);

/* Set whether new ranges belong to no table, as nothing is traced. */
void range_events_pause(bool paused);

/* Have ranges of this name, in any domain if NULL, reported by agent_range(): each, or only those that begin while
 * none is open; false if impossible. */
bool range_events_watch(const char *name, const char *domain, bool each);

/* Return whether the last such report came without the GIL, and reset it. */
bool range_events_reported(bool *begins);
