/*
 * The NVTX collector under any sequence of calls: attributes of any size, texts that end where they end, handles of
 * other domains, null pointers, threads, a fork. An input is a program: one byte says what to call, the next ones are its
 * arguments. Afterwards the files must hold what was called, and the calls must have returned what NVTX documents.
 *
 * The collector's sources are part of this one, so that its state can be taken back to the beginning for each input.
 */
#define _GNU_SOURCE
#include "names.c"

#define put put_record
#include "threads.c"
#undef put

#include "callbacks.c"
#include "files.c"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "input.h"

enum { MOST_HANDLES = 16, MOST_IDS = 32, MOST_DEPTH_DOMAINS = MOST_DOMAINS + 1, MOST_CALLS = 400 };

static nvtx_function core_functions[NVTX_CORE_SIZE], core2_functions[NVTX_CORE2_SIZE];
static nvtx_function *core_table[NVTX_CORE_SIZE], *core2_table[NVTX_CORE2_SIZE];

/* What an input has made so far. */
static struct domain *made_domains[MOST_HANDLES];
static void *made_strings[MOST_HANDLES];
static unsigned domains_made, strings_made;
static uint64_t ids[MOST_IDS];
static unsigned ids_made;
static uint64_t events_called;        /* that are to be in the files, or counted as lost */
static uint64_t pushes_heard, pops_heard, pushes_called, pops_called;
/* Threads and forks take a hundred times as long as a call: few of the inputs have them. */
static bool listening, may_start_threads, may_fork, forked;

static int module_table(int module, nvtx_function ***table, unsigned *size)
{
    if (module != NVTX_MODULE_CORE && module != NVTX_MODULE_CORE2)
        return 0;
    *table = module == NVTX_MODULE_CORE ? core_table : core2_table;
    *size = module == NVTX_MODULE_CORE ? NVTX_CORE_SIZE : NVTX_CORE2_SIZE;
    return 1;
}

static void hear_version(uint32_t version) { MUST(version == 3); }

static const struct nvtx_callbacks_table callbacks_export = {sizeof callbacks_export, module_table};
static const struct nvtx_version_table version_export = {sizeof version_export, 3, 0, hear_version};

static const void *export_table(uint32_t table)
{
    return table == NVTX_TABLE_CALLBACKS ? (const void *)&callbacks_export
           : table == NVTX_TABLE_VERSION ? (const void *)&version_export
                                         : NULL;
}

static void hear_push(uint32_t domain, uint32_t name)
{
    (void)name;
    MUST(domain < MOST_DEPTH_DOMAINS);
    pushes_heard++;
}

static void hear_pop(uint32_t domain)
{
    MUST(domain < MOST_DEPTH_DOMAINS);
    pops_heard++;
}

static const struct range_listener hearing = {sizeof hearing, hear_push, hear_pop, NULL, NULL};

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count;
    (void)words;
    static char directory[PATH_ROOM];
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/profkit-fuzz-XXXXXX", base != NULL ? base : "/tmp");
    MUST(mkdtemp(directory) != NULL);
    setenv("PROFKIT_SPOOL", directory, 1);
    for (int i = 0; i < NVTX_CORE_SIZE; i++)
        core_table[i] = &core_functions[i];
    for (int i = 0; i < NVTX_CORE2_SIZE; i++)
        core2_table[i] = &core2_functions[i];
    MUST(InitializeInjectionNvtx2(export_table) == 1);
    return 0;
}

/* Arguments */

/* A text in memory of its own size; NULL now and then. Long ones repeat their bytes. */
static char *take_text(struct input *input)
{
    unsigned kind = take_byte(input), bytes = take_byte(input);
    if (kind % 16 == 0)
        return NULL;
    if (bytes > input->left)
        bytes = (unsigned)input->left;
    unsigned times = kind % 16 == 1 ? 40 : kind % 16 == 2 ? MOST_TEXT / (bytes + 1) + 1 : 1;
    char *text = malloc((size_t)bytes * times + 1);
    MUST(text != NULL);
    for (unsigned i = 0; i < times; i++)
        memcpy(text + (size_t)i * bytes, input->data, bytes);
    text[(size_t)bytes * times] = '\0';
    input->data += bytes;
    input->left -= bytes;
    return text;
}

static wchar_t *take_wide(struct input *input)
{
    unsigned kind = take_byte(input), length = take_byte(input) % 64, times = kind % 16 == 1 ? 100 : 1;
    if (kind % 16 == 0)
        return NULL;
    wchar_t *text = malloc(((size_t)length * times + 1) * sizeof *text);
    MUST(text != NULL);
    for (unsigned i = 0; i < length; i++) {
        wchar_t c = kind % 2 != 0 ? (wchar_t)take_word(input) : (wchar_t)take_byte(input);
        for (unsigned j = 0; j < times; j++)
            text[j * length + i] = c;
    }
    text[(size_t)length * times] = 0;
    return text;
}

static struct domain *take_domain(struct input *input)
{
    unsigned which = take_byte(input);
    return which % 4 == 0 || domains_made == 0 ? NULL : made_domains[which % domains_made];
}

/* Attributes in memory of the size that they claim, with what their text is in. */
struct attributes {
    struct nvtx_attributes *given;
    void *text;
};

static struct attributes take_attributes(struct input *input)
{
    struct attributes made = {NULL, NULL};
    unsigned kind = take_byte(input);
    if (kind % 32 == 0)
        return made;
    uint16_t size = kind % 8 == 1 ? (uint16_t)take_word(input) : (uint16_t)sizeof(struct nvtx_attributes);
    size_t room = size < 4 ? 4 : size;
    uint8_t *bytes = calloc(1, room);
    MUST(bytes != NULL);
    for (size_t i = 4; i < room && i < sizeof(struct nvtx_attributes); i++)
        bytes[i] = kind % 4 == 2 ? take_byte(input) : 0;
    bytes[0] = 3;
    memcpy(bytes + 2, &size, sizeof size);
    made.given = (struct nvtx_attributes *)bytes;
    if (room < sizeof(struct nvtx_attributes))
        return made;
    made.given->payload_type = (int32_t)take_byte(input) - 1;
    made.given->color_type = kind % 3 == 0;
    int32_t type = made.given->message_type = (int32_t)(take_byte(input) % 5);
    if (type == NVTX_MESSAGE_ASCII)
        made.given->message.ascii = made.text = take_text(input);
    else if (type == NVTX_MESSAGE_WIDE)
        made.given->message.wide = made.text = take_wide(input);
    else if (type == NVTX_MESSAGE_REGISTERED)
        made.given->message.registered = strings_made == 0 ? NULL : made_strings[take_byte(input) % strings_made];
    else
        made.given->message.ascii = (const char *)(uintptr_t)take_word(input); /* of a type that is not known */
    return made;
}

static void give_back(struct attributes made)
{
    free(made.text);
    free(made.given);
}

static void remember_id(uint64_t id)
{
    events_called++;
    ids[ids_made++ % MOST_IDS] = id;
}

static uint64_t take_id(struct input *input)
{
    unsigned which = take_byte(input);
    if (which % 8 == 0)
        return (uint64_t)take_word(input) << 32 | take_word(input);
    return ids_made == 0 ? 0 : ids[which % (ids_made < MOST_IDS ? ids_made : MOST_IDS)];
}

/* What push and pop are to return, for each thread: the ranges that are open in a domain. */
static _Thread_local int32_t depth[MOST_DEPTH_DOMAINS];

static void pushed_to(uint16_t domain, int level)
{
    MUST(level == depth[domain]);
    depth[domain]++;
    events_called++;
    pushes_called += listening;
}

static void popped_from(uint16_t domain, int level)
{
    MUST(level == (depth[domain] == 0 ? NO_RANGE : depth[domain] - 1));
    depth[domain] -= depth[domain] > 0;
    events_called++;
    pops_called += listening;
}

/* Calls */

#define CALL(id, type) ((type)(void (*)(void))core_functions[id])
#define CALL2(id, type) ((type)(void (*)(void))core2_functions[id])

static void run(struct input *input);
static void check_files(void);

/* Without a header the names are those of the parent's files. */
static void remove_files(void)
{
    if (header != NULL) {
        unlink(event_path);
        unlink(definition_path);
    }
}

static void *run_thread(void *argument)
{
    memset(depth, 0, sizeof depth);
    run(argument);
    return NULL;
}

/* Some of the next bytes are the program of another thread. */
static void call_thread(struct input *input)
{
    size_t bytes = take_byte(input);
    struct input part = {input->data, bytes < input->left ? bytes : input->left};
    pthread_t thread;
    input->data += part.left;
    input->left -= part.left;
    if (!may_start_threads) {
        run(&part);
        return;
    }
    MUST(pthread_create(&thread, NULL, run_thread, &part) == 0);
    MUST(pthread_join(thread, NULL) == 0);
}

/* The rest is run by a child as well, whose files are its own. */
static void call_fork(struct input *input)
{
    if (!may_fork || forked)
        return;
    forked = true;
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        events_called = 0;
        struct input rest = *input;
        run(&rest);
        check_files();
        remove_files();
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) != child)
        MUST(errno == EINTR); /* the engine has a timer */
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void call_one(struct input *input)
{
    struct attributes made;
    struct domain *domain;
    char *text;
    wchar_t *wide;
    void *handle;
    switch (take_byte(input) % 34) {
    case 0:
        made = take_attributes(input);
        CALL(NVTX_MARK_EX, void (*)(const struct nvtx_attributes *))(made.given);
        events_called++;
        give_back(made);
        break;
    case 1:
        CALL(NVTX_MARK_A, void (*)(const char *))(text = take_text(input));
        events_called++;
        free(text);
        break;
    case 2:
        CALL(NVTX_MARK_W, void (*)(const wchar_t *))(wide = take_wide(input));
        events_called++;
        free(wide);
        break;
    case 3:
        made = take_attributes(input);
        remember_id(CALL(NVTX_RANGE_START_EX, uint64_t (*)(const struct nvtx_attributes *))(made.given));
        give_back(made);
        break;
    case 4:
        remember_id(CALL(NVTX_RANGE_START_A, uint64_t (*)(const char *))(text = take_text(input)));
        free(text);
        break;
    case 5:
        remember_id(CALL(NVTX_RANGE_START_W, uint64_t (*)(const wchar_t *))(wide = take_wide(input)));
        free(wide);
        break;
    case 6: {
        uint64_t id = take_id(input);
        CALL(NVTX_RANGE_END, void (*)(uint64_t))(id);
        events_called += id != 0;
        break;
    }
    case 7:
    case 8:
        made = take_attributes(input);
        pushed_to(0, CALL(NVTX_RANGE_PUSH_EX, int (*)(const struct nvtx_attributes *))(made.given));
        give_back(made);
        break;
    case 9:
        pushed_to(0, CALL(NVTX_RANGE_PUSH_A, int (*)(const char *))(text = take_text(input)));
        free(text);
        break;
    case 10:
        pushed_to(0, CALL(NVTX_RANGE_PUSH_W, int (*)(const wchar_t *))(wide = take_wide(input)));
        free(wide);
        break;
    case 11:
    case 12:
        popped_from(0, CALL(NVTX_RANGE_POP, int (*)(void))());
        break;
    case 13: {
        uint32_t category = take_word(input);
        CALL(NVTX_NAME_CATEGORY_A, void (*)(uint32_t, const char *))(category, text = take_text(input));
        free(text);
        break;
    }
    case 14: {
        uint32_t category = take_word(input);
        CALL(NVTX_NAME_CATEGORY_W, void (*)(uint32_t, const wchar_t *))(category, wide = take_wide(input));
        free(wide);
        break;
    }
    case 15: {
        uint32_t tid = take_word(input);
        CALL(NVTX_NAME_OS_THREAD_A, void (*)(uint32_t, const char *))(tid, text = take_text(input));
        free(text);
        break;
    }
    case 16: {
        uint32_t tid = take_word(input);
        CALL(NVTX_NAME_OS_THREAD_W, void (*)(uint32_t, const wchar_t *))(tid, wide = take_wide(input));
        free(wide);
        break;
    }
    case 17:
        domain = take_domain(input), made = take_attributes(input);
        CALL2(NVTX_DOMAIN_MARK_EX, void (*)(struct domain *, const struct nvtx_attributes *))(domain, made.given);
        events_called++;
        give_back(made);
        break;
    case 18:
        domain = take_domain(input), made = take_attributes(input);
        remember_id(CALL2(NVTX_DOMAIN_RANGE_START_EX,
                          uint64_t (*)(struct domain *, const struct nvtx_attributes *))(domain, made.given));
        give_back(made);
        break;
    case 19: {
        domain = take_domain(input);
        uint64_t id = take_id(input);
        CALL2(NVTX_DOMAIN_RANGE_END, void (*)(struct domain *, uint64_t))(domain, id);
        events_called += id != 0;
        break;
    }
    case 20:
    case 21:
        domain = take_domain(input), made = take_attributes(input);
        pushed_to(domain_id(domain),
                  CALL2(NVTX_DOMAIN_RANGE_PUSH_EX,
                        int (*)(struct domain *, const struct nvtx_attributes *))(domain, made.given));
        give_back(made);
        break;
    case 22:
    case 23:
        domain = take_domain(input);
        popped_from(domain_id(domain), CALL2(NVTX_DOMAIN_RANGE_POP, int (*)(struct domain *))(domain));
        break;
    case 24: {
        domain = take_domain(input);
        uint32_t category = take_word(input);
        CALL2(NVTX_DOMAIN_NAME_CATEGORY_A,
              void (*)(struct domain *, uint32_t, const char *))(domain, category, text = take_text(input));
        free(text);
        break;
    }
    case 25: {
        domain = take_domain(input);
        uint32_t category = take_word(input);
        CALL2(NVTX_DOMAIN_NAME_CATEGORY_W,
              void (*)(struct domain *, uint32_t, const wchar_t *))(domain, category, wide = take_wide(input));
        free(wide);
        break;
    }
    case 26:
    case 27:
        domain = take_domain(input), text = take_text(input);
        handle = CALL2(NVTX_DOMAIN_REGISTER_STRING_A, void *(*)(struct domain *, const char *))(domain, text);
        MUST((handle == NULL) == (text == NULL));
        MUST(CALL2(NVTX_DOMAIN_REGISTER_STRING_A, void *(*)(struct domain *, const char *))(NULL, text) == handle);
        made_strings[strings_made++ % MOST_HANDLES] = handle;
        strings_made = strings_made > MOST_HANDLES ? MOST_HANDLES : strings_made;
        free(text);
        break;
    case 28:
        domain = take_domain(input), wide = take_wide(input);
        handle = CALL2(NVTX_DOMAIN_REGISTER_STRING_W, void *(*)(struct domain *, const wchar_t *))(domain, wide);
        made_strings[strings_made++ % MOST_HANDLES] = handle;
        strings_made = strings_made > MOST_HANDLES ? MOST_HANDLES : strings_made;
        free(wide);
        break;
    case 29:
        text = take_text(input);
        domain = CALL2(NVTX_DOMAIN_CREATE_A, struct domain *(*)(const char *))(text);
        MUST(CALL2(NVTX_DOMAIN_CREATE_A, struct domain *(*)(const char *))(text) == domain);
        made_domains[domains_made++ % MOST_HANDLES] = domain;
        domains_made = domains_made > MOST_HANDLES ? MOST_HANDLES : domains_made;
        free(text);
        break;
    case 30:
        wide = take_wide(input);
        made_domains[domains_made++ % MOST_HANDLES] =
            CALL2(NVTX_DOMAIN_CREATE_W, struct domain *(*)(const wchar_t *))(wide);
        domains_made = domains_made > MOST_HANDLES ? MOST_HANDLES : domains_made;
        free(wide);
        break;
    case 31:
        CALL2(NVTX_DOMAIN_DESTROY, void (*)(struct domain *))(take_domain(input));
        CALL2(NVTX_INITIALIZE, void (*)(const void *))(NULL);
        break;
    case 32:
        call_thread(input);
        break;
    default:
        call_fork(input);
        break;
    }
}

static void run(struct input *input)
{
    for (int calls = 0; input->left > 0 && calls < MOST_CALLS; calls++)
        call_one(input);
}

/* What is in the files */

static const char *content_of(const char *path, size_t *bytes)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *bytes = 0;
    if (fd < 0)
        return NULL;
    MUST(fstat(fd, &status) == 0);
    *bytes = (size_t)status.st_size;
    void *content = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, fd, 0);
    MUST(content != MAP_FAILED);
    close(fd);
    return content;
}

static bool defined[MOST_NAMES + 2 * RESERVED_NAMES];

static void check_definitions(void)
{
    size_t bytes;
    const char *content = content_of(definition_path, &bytes);
    memset(defined, 0, (name_count + 1) * sizeof defined[0]);
    for (size_t start = 0; content != NULL && start < bytes; start += DEFINITION_BLOCK) {
        size_t at = start == 0 ? 8 : start, stop = start + DEFINITION_BLOCK;
        MUST(stop <= bytes && (start > 0 || memcmp(content, DEFINITION_MAGIC, 8) == 0));
        while (at + sizeof(struct definition) <= stop) {
            const struct definition *found = (const struct definition *)(content + at);
            if (found->kind == 0)
                break;
            MUST(found->kind <= DEFINITION_COMMAND && at + sizeof *found + found->bytes <= stop);
            if (found->kind == DEFINITION_STRING) {
                MUST(found->id >= 1 && found->id <= name_count && found->bytes <= MOST_TEXT);
                defined[found->id] = true;
            }
            at += (sizeof *found + found->bytes + 7) & ~(size_t)7;
        }
    }
    if (content != NULL)
        munmap((void *)content, bytes);
}

/* Every call is one record, or is counted as lost; every name that a record has is defined. */
static void check_files(void)
{
    if (header == NULL) {
        MUST(atomic_load(&lost_before) == events_called);
        return;
    }
    size_t bytes;
    const char *content = content_of(event_path, &bytes);
    MUST(content != NULL && bytes >= HEADER_BYTES && memcmp(content, EVENT_MAGIC, 8) == 0);
    check_definitions();
    uint64_t events = 0;
    for (size_t at = HEADER_BYTES; at + sizeof(struct record) <= bytes; at += sizeof(struct record)) {
        const struct record *found = (const struct record *)(content + at);
        unsigned kind = found->head & 0xFF, domain = found->head >> 16 & 0xFFFF;
        uint32_t string = (uint32_t)(found->head >> 32);
        MUST(kind <= RECORD_GAP && domain <= domain_count);
        if (kind == RECORD_NONE || kind == RECORD_SEGMENT || kind == RECORD_GAP)
            continue;
        MUST(string <= name_count && (string == 0 || defined[string]));
        MUST((found->head >> 8 & 0xFF) <= NVTX_PAYLOAD_F32);
        events++;
    }
    MUST(events + atomic_load(&header->lost) == events_called);
    munmap((void *)content, bytes);
}

/* The state of a process in which NVTX was just loaded */

static void forget_names(void)
{
    struct table *table = atomic_load(&names);
    for (size_t i = 0; table != NULL && i <= table->mask; i++)
        free(atomic_load(&table->slots[i]));
    while (table != NULL) {
        struct table *outgrown = table->outgrown;
        free(table);
        table = outgrown;
    }
    while (definitions != NULL) {
        struct pending *next = definitions->next;
        free(definitions);
        definitions = next;
    }
    atomic_store(&names, NULL);
    atomic_store(&names_full, false);
    atomic_store(&retry_define_ns, 0);
    last_definition = &definitions;
    name_count = definition_count = domain_count = 0;
    memset(domains, 0, sizeof domains);
}

static void forget(void)
{
    if (thread_self != NULL)
        thread_ended(thread_self);
    MUST(all == NULL);
    while (rests != NULL) {
        struct rest *rest = rests;
        rests = rest->next;
        files_drop_chunk(&rest->chunk);
        free(rest);
    }
    remove_files();
    files_forget(0);
    forget_names();
    serials = 0;
    collector_generation = 1;
    memset(depth, 0, sizeof depth);
    domains_made = strings_made = ids_made = 0;
    events_called = pushes_heard = pops_heard = pushes_called = pops_called = 0;
    forked = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    unsigned state = take_byte(&input);
    /* As after a long life: hardly room for names, domains, definitions, or events. */
    limit_bytes = state & 1 ? (uint64_t)HEADER_BYTES + (state >> 4) * 0x4000u : DEFAULT_LIMIT;
    if (state % 16 == 6)
        name_count = MOST_NAMES - (state >> 4);
    if (state % 16 == 8)
        domain_count = MOST_DOMAINS - 2, definition_count = MOST_DEFINITIONS - (state >> 4);
    may_start_threads = state % 128 >= 96;
    may_fork = state == 10;
    listening = state & 4;
    profkit_nvtx_listen(listening ? &hearing : NULL);
    run(&input);
    MUST(pushes_heard == pushes_called && pops_heard == pops_called);
    check_files();
    forget();
    return 0;
}
