/* Taking an input apart: bytes, numbers and exactly sized copies of texts, so that a read past an end is seen. */
#ifndef PROFKIT_FUZZ_INPUT_H
#define PROFKIT_FUZZ_INPUT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

struct input {
    const uint8_t *data;
    size_t left;
};

static inline uint8_t take_byte(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->data++;
}

static inline uint32_t take_word(struct input *input)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | take_byte(input);
    return value;
}

/* What must hold does not: said, and ended in a way that the engine sees. */
#define MUST(condition)                                                                                               \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "wrong: %s, line %d\n", #condition, __LINE__);                                            \
            abort();                                                                                                  \
        }                                                                                                             \
    } while (0)

#endif
