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

/* What one thread does, and what it has done since it was last reported. */
struct thread {
    /* Of a whole process: whether it is observed, or only what it forks. */
    u32 role;
    /* A call that has begun: its kind + 1; 0 outside of calls. */
    u16 kind;
    u16 flags;
    /* 0 while it is off the CPU. */
    u64 on_cpu_since_ns;
    /* CPU time since the last timed call, up to on_cpu_since_ns. */
    u64 cpu_ns;
    /* Since when it waits, having left the CPU by itself; 0 while it does not. */
    u64 left_ns;
    /* The last waking since it was put on a CPU, and the observed thread it came from. */
    u64 waking_ns;
    s32 waking_tid;
    s32 fd;
    u64 call_start_ns;
    u64 call_cpu_before_ns;
    /* CPU time in the call since it began, or since the last wait in it. */
    u64 inside_cpu_ns;
    /* The file offset or new length, and where the path is. */
    u64 offset;
    u64 path;
    /* The last wait in the call. */
    u64 block_start_ns;
    u64 block_end_ns;
    u64 block_cpu_before_ns;
    s32 block_woken_by;
    u32 call_blocked;
    /* Requests of io_uring under way, and how many there were at once, with calls on files, since
     * there was none. */
    u32 requests;
    u32 requests_most;
    /* The same when it last left the CPU. */
    u32 left_requests_most;
    /* Of enum inside, what it left the CPU for outside of timed calls. */
    u32 left_awaiting;
    /* Whether it frees memory for itself. */
    u32 reclaims;
    u32 unused;
    /* CPU time of its other work while the one request was under way. */
    u64 busy_ns;
    /* Its number of major faults once the last fault on a file is one; 0 where that was counted. */
    u64 next_major_fault;
    /* The file's page of that fault, and its first wait since. */
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
    /* Returns a descriptor of what the path leads to. */
    OPENS = 8,
    /* Reported when it begins: a descriptor that is closed may soon stand for something else. */
    AT_ENTRY = 16,
    /* Matters only where it duplicates a descriptor. */
    FCNTL = 32,
    /* Matters only where it removes no folder. */
    UNLINKAT = 64,
    /* io_uring_enter, which is not reported. */
    RING = 128,
    /* Looks a path up: matters only where the thread leaves the CPU meanwhile. */
    LOOKUP = 256,
    /* close_range: matters only where it closes at once. */
    RANGE = 512,
    /* pwritev2, which may write at the end whatever its offset. */
    MAY_APPEND = 1024,
    /* From here on, which argument is a file offset or a length: 1 to 3 for the second to the
     * fourth, 0 for none. */
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
    /* What was under way: see enum inside. */
    u32 inside;
};

/* WRITEBACK is a wait while the kernel frees memory for the thread: mostly for dirty pages that are
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

/* What a descriptor or a request leads to; all 0 for nothing. */
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
    /* CPU time of its thread's other work meanwhile. */
    u64 busy_ns;
    struct identity file;
    s32 ret;
    /* How many its thread had under way at once, with calls, from when it had none. */
    u32 most;
};

#define PATH_BYTES 256

struct named {
    struct call call;
    struct identity file;
    /* The end of the file, where the descriptor appends to it; -1 where it does not. */
    s64 append_at;
    /* With its NUL; 0 where it could not be read. */
    s64 path_bytes;
    char path[PATH_BYTES];
};

/* Where in its code a thread was. */
struct sample {
    struct header header;
    u32 unused;
    u64 time_ns;
    u64 ip;
};

#define STACK_PART_BYTES 1024
#define STACK_PARTS 32
#define STACK_PIECE_BYTES 64
/* So many samples come to one of a stack. */
#define SAMPLES_PER_STACK 5

/* The registers that unwind the stack of a thread, and the innermost part of that. */
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

/* A process was forked, ran another program, or a thread ended. */
struct life {
    struct header header;
    /* Of a fork: the child, and the role of the parent. */
    u32 child;
    u32 role;
    /* Of a thread that ends: how many others of its process have not. */
    u32 live;
    /* Of a thread: CPU time since its last call. */
    u64 cpu_ns;
};
