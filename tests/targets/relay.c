/* Threads and processes that wait for each other in a known way: relay WAY FILE ROUNDS WORK_US.
 *
 * token   two threads take turns: one works, then passes the turn by a condition variable
 * pipe    two processes take turns: one works, then passes the turn through a pipe
 * sleep   one thread that works, then sleeps for the same time
 * spill   two threads take turns, each of which works, writes 8 KiB and reads them
 * apart   the same threads without turns
 *
 * Each worker has its own file, FILE.0 or FILE.1. Work is CPU time of the thread. Prints JSON: for
 * each worker its thread id, the CPU time of its file I/O, its total CPU time, the duration of its
 * turns, and how often it was preempted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 8192, WORKERS = 2 };

struct account {
    long tid, io_cpu_ns, cpu_ns, held_ns, pushed;
};

static const char *way;
static int files[WORKERS], rounds, pipes[WORKERS][2];
static long work_ns;
static struct account *accounts;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed[WORKERS] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static int turn;

static long now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void work(void)
{
    long end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + work_ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
        ;
}

static void spill(struct account *account, int file, long offset)
{
    char block[BLOCK];
    memset(block, 'x', BLOCK);
    long start_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    if (pwrite(file, block, BLOCK, offset) != BLOCK || pread(file, block, BLOCK, offset) != BLOCK)
        abort();
    account->io_cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
}

static int is(const char *other)
{
    return strcmp(way, other) == 0;
}

static void take_turn(int me)
{
    char byte;
    if (is("pipe")) {
        if (read(pipes[me][0], &byte, 1) != 1)
            abort();
    } else if (is("token") || is("spill")) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&passed[me], &mutex);
        pthread_mutex_unlock(&mutex);
    }
}

static void pass_turn(int other)
{
    if (is("pipe")) {
        if (write(pipes[other][1], "x", 1) != 1)
            abort();
    } else if (is("token") || is("spill")) {
        pthread_mutex_lock(&mutex);
        turn = other;
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&passed[other]);
    } else if (is("sleep")) {
        nanosleep(&(struct timespec){.tv_nsec = work_ns}, NULL);
    }
}

static void *worker(void *argument)
{
    int me = (int)(long)argument, spills = is("spill") || is("apart");
    struct account *account = &accounts[me];
    account->tid = syscall(SYS_gettid);
    for (long round = 0; round < rounds; round++) {
        take_turn(me);
        long start_ns = now_ns(CLOCK_MONOTONIC);
        work();
        if (spills || round == 0)
            spill(account, files[me], round * BLOCK);
        account->held_ns += now_ns(CLOCK_MONOTONIC) - start_ns;
        pass_turn(!me);
    }
    account->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    account->pushed = usage.ru_nivcsw;
    /* So that a row follows the last work. */
    usleep(1000);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 5)
        return 2;
    way = arguments[1];
    for (int me = 0; me < WORKERS; me++) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%d", arguments[2], me);
        files[me] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    }
    rounds = atoi(arguments[3]);
    work_ns = atol(arguments[4]) * 1000;
    accounts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long start_ns = now_ns(CLOCK_MONOTONIC);
    int workers = is("sleep") ? 1 : WORKERS;
    if (is("pipe")) {
        if (pipe(pipes[0]) || pipe(pipes[1]) || write(pipes[0][1], "x", 1) != 1)
            return 1;
        pid_t child = fork();
        worker((void *)(long)(child == 0));
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    } else {
        pthread_t threads[WORKERS];
        for (long me = 0; me < workers; me++)
            pthread_create(&threads[me], NULL, worker, (void *)me);
        for (int me = 0; me < workers; me++)
            pthread_join(threads[me], NULL);
    }
    printf("{\"main\": %d, \"elapsed_ns\": %ld, \"workers\": [", getpid(),
           now_ns(CLOCK_MONOTONIC) - start_ns);
    for (int me = 0; me < workers; me++)
        printf("%s{\"tid\": %ld, \"io_cpu_ns\": %ld, \"cpu_ns\": %ld, \"held_ns\": %ld, \"pushed\": %ld}",
               me ? ", " : "", accounts[me].tid, accounts[me].io_cpu_ns, accounts[me].cpu_ns,
               accounts[me].held_ns, accounts[me].pushed);
    puts("]}");
    return 0;
}
