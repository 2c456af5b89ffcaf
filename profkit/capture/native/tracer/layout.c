/* The numbers match profkit/capture/mapped_layout.py; changing them requires a new STORE_VERSION. */
#include "table.h"

#include "layout.h"
#include "entries.h"
#include "lines.h"
#include "paths.h"
#include "pauses.h"
#include "ranges.h"
#include "slices.h"
#include "store.h"

#if UINTPTR_MAX == UINT64_MAX
#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == offset, #type "." #field)

AT(store_header, table_bytes, 16);
AT(store_header, thread, 40);
AT(store_header, clock_turn, 48);
AT(store_header, began_ticks, 56);
AT(store_header, latest_ticks, 72);
AT(store_header, first_ns_per_tick, 88);
AT(store_header, epoch, 96);
AT(store_header, missed, 104);
AT(store_header, tiers, 112);
AT(store_header, lost_forks, 328);
_Static_assert(sizeof(struct tier_store) == 216, "tier_store");
_Static_assert(sizeof(struct extent) == 16, "extent");
_Static_assert(sizeof(struct block) == 16, "block");
_Static_assert(sizeof(struct name_entry) == 24, "name_entry");

AT(table, number, 0);
AT(table, top, 8);
AT(table, stack, 16);
AT(table, last, 24);
AT(table, wait, 32);
AT(table, blocked, 40);
AT(table, context, 48);
AT(table, charged_until, 56);
AT(table, read, 64);
AT(table, uncharged_wait, 88);
AT(table, uncharged_blocked, 96);
AT(table, long_gap, 104);
AT(table, taken, 112);
AT(table, lost, 120);
AT(table, born, 128);
AT(table, folded, 136);
AT(table, native, 144);
AT(table, n_folded, 148);
AT(table, read_before, 152);
AT(table, unmeasured, 153);
AT(table, ended, 154);
AT(table, name, 155);

AT(call, edge, 0);
AT(call, start, 8);
AT(call, children, 16);
AT(call, wait_at_start, 24);
AT(call, blocked_at_start, 32);
AT(call, path, 40);

AT(function, number, 4);
AT(function, name_id, 8);
AT(function, open, 32);
AT(function, recursive, 40);
AT(function, total, 48);
AT(function, cumulative_wait, 56);
AT(function, cumulative_blocked, 64);
AT(function, sampled, 72);
AT(function, cut, 80);
AT(function, counted_recursive, 88);

AT(edge, caller, 4);
AT(edge, called, 8);
AT(edge, calls, 24);
AT(edge, own, 32);
AT(edge, open, 40);
AT(edge, total, 48);
AT(edge, recursive, 56);
AT(edge, wait, 64);
AT(edge, cumulative_wait, 72);
AT(edge, blocked, 80);
AT(edge, cumulative_blocked, 88);
AT(edge, seen, 96);
AT(edge, seen_squares, 104);
AT(edge, samples, 112);
AT(edge, squares, 120);
AT(edge, sampled, 128);
AT(edge, counted, 136);

AT(path, number, 4);
AT(path, parent_number, 8);
AT(path, called, 12);
AT(path, calls, 16);
AT(path, own, 24);
AT(path, wait, 32);
AT(path, blocked, 40);

AT(context, number, 4);
AT(context, parent_number, 8);
AT(context, opener_number, 12);
AT(context, domain, 16);
AT(context, name, 20);
AT(context, count, 24);

_Static_assert(sizeof(struct pause) == 40, "pause");
AT(pause, called, 4);
AT(pause, what, 8);
AT(pause, ns, 16);
AT(pause, n, 24);

_Static_assert(sizeof(struct line) == 40, "line");
AT(line, called, 4);
AT(line, within, 8);
AT(line, line, 12);
AT(line, ns, 16);
AT(line, n, 24);

_Static_assert(sizeof(struct slice) == 48, "slice");
AT(slice, called, 4);
AT(slice, begin, 16);
AT(slice, end, 24);
AT(slice, ns, 32);
#endif

void layout_describe(struct store_header *header) {
    header->table_bytes = sizeof(struct table);
    header->call_bytes = sizeof(struct call);
    header->function_bytes = sizeof(struct function);
    header->edge_bytes = sizeof(struct edge);
    header->context_bytes = sizeof(struct context);
    header->path_bytes = sizeof(struct path);
}
