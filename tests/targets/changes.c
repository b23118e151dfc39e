/* Creates, resizes, syncs and removes files: changes DIR COUNT. Prints counts and times as JSON. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { OPENAT, FTRUNCATE, FALLOCATE, FSYNC, FDATASYNC, SYNC_FILE_RANGE, TRUNCATE, UNLINK, UNLINKAT, CALLS };
static const char *names[] = {"openat",          "ftruncate", "fallocate", "fsync",   "fdatasync",
                              "sync_file_range", "truncate",  "unlink",    "unlinkat"};
static int64_t count[CALLS], total_ns[CALLS];

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int timed(int call, int64_t start_ns, int result) {
    total_ns[call] += now_ns() - start_ns;
    count[call]++;
    if (result < 0) {
        perror(names[call]);
        exit(1);
    }
    return result;
}

int main(int argc, char **argv) {
    static char data[65536];
    char path[4096];
    (void)argc;
    if (chdir(argv[1])) return 1;
    for (int i = 0; i < atoi(argv[2]); i++) {
        snprintf(path, sizeof path, "%s/file%d", argv[1], i);
        int64_t start_ns = now_ns();
        int fd = timed(OPENAT, start_ns, open(path, O_RDWR | O_CREAT | O_TRUNC, 0600));
        if (pwrite(fd, data, sizeof data, 0) != sizeof data) return 1;
        start_ns = now_ns();
        timed(FTRUNCATE, start_ns, ftruncate(fd, 4096 * (i + 1)));
        start_ns = now_ns();
        timed(FALLOCATE, start_ns, -posix_fallocate(fd, 8192, 65536));
        start_ns = now_ns();
        timed(FSYNC, start_ns, fsync(fd));
        start_ns = now_ns();
        timed(FDATASYNC, start_ns, fdatasync(fd));
        start_ns = now_ns();
        timed(SYNC_FILE_RANGE, start_ns, sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
        start_ns = now_ns();
        timed(TRUNCATE, start_ns, truncate(path, 100));
        close(fd);
        start_ns = now_ns();
        if (i % 3 == 0) timed(UNLINK, start_ns, unlink(path));
        if (i % 3 == 1) timed(UNLINK, start_ns, remove(path));
        if (i % 3 == 2) {
            snprintf(path, sizeof path, "./file%d", i);
            timed(UNLINKAT, start_ns, unlinkat(AT_FDCWD, path, 0));
        }
    }
    printf("{");
    for (int call = 0; call < CALLS; call++)
        printf("%s\"%s\": [%lld, %lld]", call ? ", " : "", names[call], (long long)count[call],
               (long long)total_ns[call]);
    printf("}\n");
    return 0;
}
