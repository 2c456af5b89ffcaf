/* What a reader of the store's file relies on, beside store.h; layout.c asserts the offsets.
 *
 * Entries follow each other at multiples of 16 bytes (names: of 8). A kind of 0 ends a block: it is stored last, so that an
 * entry that was being made when the process died is not there.
 */
#ifndef PROFKIT_LAYOUT_H
#define PROFKIT_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the files are little-endian, and so must the machine be"
#endif

struct store_header;

enum entry_kind { ENTRY_FUNCTION = 1, ENTRY_EDGE = 2, ENTRY_CONTEXT = 3, ENTRY_ROW = 4, ENTRY_PATH = 5, ENTRY_PAUSE = 6, ENTRY_LINE = 7,
                  ENTRY_SLICE = 8 };

enum name_entry_kind { NAME_FILE = 1, NAME_FUNCTION = 2 };

enum name_entry_flag {
    NAME_IS_OWN = 1,      /* a file of the agent's */
    NAME_IS_UNCOUNTED = 2 /* a function whose calls are not all known where the process was sampled, see seldom.h; set at any time */
};

struct name_entry {
    _Atomic uint32_t kind;
    uint32_t bytes; /* of the text */
    uint32_t id;    /* of the file or of the function, from 1 on */
    uint32_t file;  /* of a function; it is before it */
    uint32_t line;
    uint32_t flags;
    char text[]; /* a path; or a function's name, NUL, qualified name. UTF-8 with lone surrogates */
};

/* Say how large things are. */
void layout_describe(struct store_header *header);

#endif
