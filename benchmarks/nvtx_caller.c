/*
 * What a push/pop pair costs a C program: `nvtx_caller PAIRS` prints nanoseconds. As in NVTX's own headers, a call
 * goes through a pointer that is NULL where there is no tool.
 */
#include "../tests/native/nvtx_client.h"

#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    long pairs = count > 1 ? atol(words[1]) : 1000000;
    int tool = getenv("NVTX_INJECTION64_PATH") != NULL;
    if (tool && client_load() != 1)
        return 1;
    client_function volatile *push = &core2_functions[4], *pop = &core2_functions[5];
    void *domain = tool ? nv_domain("measured") : NULL;
    event_t event = event_registered(tool ? nv_register(domain, "a name of usual length") : NULL);
    double least = 1e9;
    for (int round = 0; round < 5; round++) {
        double begin = seconds();
        for (long i = 0; i < pairs; i++) {
            if (*push != NULL)
                ((int (*)(void *, const event_t *))*push)(domain, &event);
            if (*pop != NULL)
                ((int (*)(void *))*pop)(domain);
        }
        double took = (seconds() - begin) / (double)pairs;
        least = took < least ? took : least;
    }
    printf("%.2f\n", least * 1e9);
    return 0;
}
