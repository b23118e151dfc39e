/* What the programs report through the ring; record.rs reads the same layouts. */
#pragma once

#include "kernel.h"

enum record_type {
    CALL,
    CALL_BLOCKED,
    CALL_NAMED,
    CALL_OPENED,
    BLOCKED,
    FORK,
    EXEC,
    THREAD_EXIT,
    REQUEST,
    SAMPLE,
    STACK_SAMPLE,
};

/* The state of a thread, and what it has done since its last report. */
struct thread {
    /* enum role of the process: whether it is observed, or only what it forks. */
    u32 role;
    /* Kind of the current call + 1; 0 outside of calls. */
    u16 kind;
    u16 flags;
    /* 0 while it is scheduled out. */
    u64 on_cpu_since_ns;
    /* CPU time since the last timed call, up to on_cpu_since_ns. */
    u64 cpu_ns;
    /* When it was scheduled out to wait; 0 unless it waits. */
    u64 left_ns;
    /* The last waking since it was scheduled in, and the observed thread that woke it. */
    u64 waking_ns;
    s32 waking_tid;
    s32 fd;
    u64 call_start_ns;
    u64 call_cpu_before_ns;
    /* CPU time in the call since it began, or since the last wait in it. */
    u64 inside_cpu_ns;
    /* The file offset or new length, and the address of the path. */
    u64 offset;
    u64 path;
    /* The last wait in the call. */
    u64 block_start_ns;
    u64 block_end_ns;
    u64 block_cpu_before_ns;
    s32 block_woken_by;
    u32 call_blocked;
    /* Requests of io_uring in flight, and the most of these and calls on files at once since there were
     * none. */
    u32 requests;
    u32 requests_most;
    /* requests_most when it was last scheduled out. */
    u32 left_requests_most;
    /* enum inside: what it was scheduled out for, outside of timed calls. */
    u32 left_awaiting;
    /* Whether it frees memory for itself (direct reclaim). */
    u32 reclaims;
    u32 unused;
    /* CPU time of its other work while the only request was in flight. */
    u64 busy_ns;
    /* The number of its major faults if the last fault on a file is one; 0 once that is settled. */
    u64 next_major_fault;
    /* The mapping and page of that fault, and its first wait since. */
    u64 fault_mapping;
    u64 fault_index;
    u64 fault_wait_ns;
};

enum role { OBSERVED = 1, WATCHED = 2 };

/* What to do with a system call, by its number; bpf/load.rs fills it in. */
enum call_flags {
    /* An operation on a file, whose time counts. */
    TIMED = 1,
    /* The first argument is a path, or the second one is. */
    PATH_FIRST = 2,
    PATH_SECOND = 4,
    /* Returns a descriptor of the file at the path. */
    OPENS = 8,
    /* Reported at entry: a descriptor that is closed may soon refer to something else. */
    AT_ENTRY = 16,
    /* Relevant only if it duplicates a descriptor. */
    FCNTL = 32,
    /* Relevant only if it does not remove a folder. */
    UNLINKAT = 64,
    /* io_uring_enter, which is not reported. */
    RING = 128,
    /* Looks a path up: relevant only if the thread waits meanwhile. */
    LOOKUP = 256,
    /* close_range: relevant only if it closes at once. */
    RANGE = 512,
    /* pwritev2, which may write at the end, whatever its offset. */
    MAY_APPEND = 1024,
    /* The bits from here on say which argument is a file offset or a length: 1 to 3 for the second to
     * the fourth, 0 for none. */
    OFFSET_SHIFT = 11,
};

struct header {
    u32 type;
    u32 pid;
    u32 tid;
};

struct call {
    struct header header;
    u16 kind;
    u16 blocked;
    u64 start_ns;
    u64 end_ns;
    s64 offset;
    s64 ret;
    u64 cpu_before_ns;
    u64 inside_cpu_ns;
    s32 fd;
    u32 unused;
};

struct block {
    u64 start_ns;
    u64 end_ns;
    u64 cpu_before_ns;
    s32 woken_by;
    /* What was in progress: see enum inside. */
    u32 inside;
};

/* WRITEBACK is a wait while the kernel frees memory for the thread: mostly for dirty pages to be
 * written back. OTHER_IO is any other I/O outside of timed calls, as in a page fault. */
enum inside { NOTHING, TIMED_CALL, ONE_REQUEST, WRITEBACK, OTHER_IO };

struct call_blocked {
    struct call call;
    struct block block;
};

struct blocked {
    struct header header;
    u32 unused;
    struct block block;
};

/* The file of a descriptor or a request; all 0 without a file. */
struct identity {
    u64 inode;
    u32 device;
    u32 links;
    u32 mode;
    u32 unused;
};

struct request_ended {
    struct header header;
    u32 write;
    u64 start_ns;
    u64 end_ns;
    s64 offset;
    u64 cpu_before_ns;
    /* CPU time of its thread's other work while the request was in flight. */
    u64 busy_ns;
    struct identity file;
    s32 ret;
    /* Most requests and calls that its thread had in flight at once, since it had none. */
    u32 most;
};

#define PATH_BYTES 256

struct named {
    struct call call;
    struct identity file;
    /* The end of the file if the descriptor appends to it, otherwise -1. */
    s64 append_at;
    /* With its NUL; 0 if it could not be read. */
    s64 path_bytes;
    char path[PATH_BYTES];
};

/* A sample of a thread's instruction pointer. */
struct sample {
    struct header header;
    u32 unused;
    u64 time_ns;
    u64 ip;
};

#define STACK_PART_BYTES 1024
#define STACK_PARTS 32
#define STACK_PIECE_BYTES 64
/* One in this many samples includes the stack. */
#define SAMPLES_PER_STACK 5

/* The registers by which the stack of a thread is unwound, and its innermost part. */
struct stack {
    struct header header;
    /* Bytes of the stack that could be read. */
    u32 bytes;
    u64 time_ns;
    u64 ip;
    u64 sp;
    u64 fp;
    u64 lr;
    char stack[STACK_PARTS][STACK_PART_BYTES];
};

/* A process was forked or executed another program, or a thread ended. */
struct life {
    struct header header;
    /* For a fork: the child, and the role of the parent. */
    u32 child;
    u32 role;
    /* For a thread that ends: how many threads of its process are still running. */
    u32 live;
    /* For a thread: CPU time since its last call. */
    u64 cpu_ns;
};
