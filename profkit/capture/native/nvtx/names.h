/* Names of ranges and of what else has one, each with a number that is defined once per generation. */
#pragma once

#include <stdatomic.h>
#include <wchar.h>

#include "files.h"

/* Longest text of a name, in bytes; longer ones are truncated. */
enum { MOST_TEXT = 4000 };

struct name {
    uint64_t hash;
    uint32_t id;
    uint32_t bytes;
    _Atomic uint32_t generation; /* in which its definition was last written */
    _Atomic(struct name *) pattern; /* the name with `{n}` for its numbers; NULL until needed */
    char text[];
};

struct domain {
    uint16_t id;
};

struct name *names_intern(const char *text);
struct name *names_intern_wide(const wchar_t *text);
uint32_t names_use(struct name *name);
struct name *names_pattern(struct name *name);
struct domain *names_domain(const char *text);
void names_define(enum definition_kind kind, uint32_t id, uint32_t extra, const char *text);
bool names_open_files(void);
size_t names_narrow(const wchar_t *wide, char *text, size_t room);
