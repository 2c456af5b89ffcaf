/* In the place of libFuzzer, where there is only a compiler: give each file that is named to the target. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int count, char **words)
{
    LLVMFuzzerInitialize(&count, &words);
    for (int i = 1; i < count; i++) {
        static uint8_t data[1 << 20];
        FILE *file = fopen(words[i], "rb");
        if (file == NULL) {
            perror(words[i]);
            return 2;
        }
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        /* In memory of its own size, so that a read behind its end is seen. */
        uint8_t *copy = malloc(size + (size == 0));
        for (size_t at = 0; at < size; at++)
            copy[at] = data[at];
        fprintf(stderr, "%s\n", words[i]);
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
    }
    return 0;
}
