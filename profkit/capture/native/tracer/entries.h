/* What readers of the store's file rely on, beside store.h; layout.c asserts the offsets. Entries follow each other
 * at multiples of 16 bytes (names: 8); a kind of 0 ends a block. It is stored last, so incomplete entries are
 * absent. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the files are little-endian, and so must the machine be"
#endif

enum entry_kind { ENTRY_FUNCTION = 1, ENTRY_EDGE = 2, ENTRY_CONTEXT = 3, ENTRY_ROW = 4, ENTRY_PATH = 5, ENTRY_PAUSE = 6, ENTRY_LINE = 7,
                  ENTRY_SLICE = 8 };

enum name_entry_kind { NAME_FILE = 1, NAME_FUNCTION = 2 };

enum name_entry_flag {
    NAME_IS_OWN = 1,      /* a file of the agent */
    NAME_IS_UNCOUNTED = 2 /* calls are partly unknown while sampled, see seldom.h; set at any time */
};

struct name_entry {
    _Atomic uint32_t kind;
    uint32_t bytes; /* of the text */
    uint32_t id;    /* of the file or function, from 1 */
    uint32_t file;  /* of a function; written before it */
    uint32_t line;
    uint32_t flags;
    char text[]; /* a path, or name, NUL, qualified name; UTF-8 with lone surrogates */
};
