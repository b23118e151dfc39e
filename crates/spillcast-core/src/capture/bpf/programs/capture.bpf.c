/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Observes the calls on files of the observed threads, and what they wait for. */

#include "records.h"

#define THREADS_MAX 32768
#define CALLS_MAX 512

/* The observed threads by id, with their state. */
struct {
    COUNT(type, MAP_HASH);
    COUNT(max_entries, THREADS_MAX);
    u32 *key;
    struct thread *value;
} threads SECTION(".maps");

struct {
    COUNT(type, MAP_RINGBUF);
    COUNT(max_entries, 4 << 20);
} ring SECTION(".maps");

/* A separate ring, so that stacks take no room from reports of I/O; its size depends on the number of
 * CPUs. */
struct {
    COUNT(type, MAP_RINGBUF);
    COUNT(max_entries, 4 << 20);
} stacks SECTION(".maps");

/* UNSEEN counts requests of io_uring that move bytes and are not reported, FILE_FAULTS page faults that
 * read, and FILE_FAULT_NS the time that threads waited in them. */
enum { LOST, CALLS, SWITCHES, UNSEEN, FILE_FAULTS, FILE_FAULT_NS, SAMPLES, COUNTS };

struct {
    COUNT(type, MAP_PERCPU_ARRAY);
    COUNT(max_entries, COUNTS);
    u32 *key;
    u64 *value;
} counts SECTION(".maps");

/* By system call number: kind + 1, or 0 for a call that is not observed; and call_flags. */
const volatile u16 kind_of_call[CALLS_MAX];
const volatile u16 flags_of_call[CALLS_MAX];
/* Size of a thread's kernel stack. */
const volatile u64 stack_bytes = 16384;

INLINE void add(u32 what, u64 more)
{
    u64 *value = map_lookup(&counts, &what);
    if (value)
        *value += more;
}

INLINE void count(u32 what)
{
    add(what, 1);
}

INLINE void *reserve(u32 type, u64 ids, u64 bytes)
{
    struct header *header = ring_reserve(&ring, bytes, 0);
    if (!header) {
        count(LOST);
        return 0;
    }
    header->type = type;
    header->pid = ids >> 32;
    header->tid = (u32)ids;
    return header;
}

INLINE struct thread *observed(u64 ids)
{
    u32 tid = (u32)ids;
    struct thread *thread = map_lookup(&threads, &tid);
    return thread && thread->role & OBSERVED ? thread : 0;
}

/* Moves the CPU time up to now into the sums. */
INLINE void settle(struct thread *thread, u64 now_ns)
{
    if (thread->on_cpu_since_ns) {
        u64 ran_ns = now_ns - thread->on_cpu_since_ns;
        if (thread->flags & TIMED)
            thread->inside_cpu_ns += ran_ns;
        else
            thread->cpu_ns += ran_ns;
    }
    thread->on_cpu_since_ns = now_ns;
}

/* Excludes the CPU time so far from what follows, while exactly one request of io_uring is in flight:
 * as in a call, it is part of the request. CPU time outside of io_uring_enter is other work. */
INLINE void leave_alone(struct thread *thread)
{
    if (!thread->requests || thread->requests_most != 1)
        return;
    settle(thread, monotonic_ns());
    if (!(thread->flags & RING))
        thread->busy_ns += thread->cpu_ns;
    thread->cpu_ns = 0;
}

INLINE void fill_call(struct call *record, struct thread *thread, u64 now_ns, s64 ret)
{
    u16 timed = thread->flags & TIMED;
    record->kind = thread->kind - 1;
    record->blocked = thread->call_blocked;
    record->start_ns = timed ? thread->call_start_ns : now_ns;
    record->end_ns = now_ns;
    record->offset = thread->flags >> OFFSET_SHIFT ? (s64)thread->offset : -1;
    record->ret = ret;
    record->cpu_before_ns = thread->call_cpu_before_ns;
    record->inside_cpu_ns = thread->inside_cpu_ns;
    record->fd = thread->fd;
    record->unused = 0;
}

INLINE void fill_block(struct block *record, struct thread *thread)
{
    record->start_ns = thread->block_start_ns;
    record->end_ns = thread->block_end_ns;
    record->cpu_before_ns = thread->block_cpu_before_ns;
    record->woken_by = thread->block_woken_by;
    if (thread->flags & TIMED)
        record->inside = TIMED_CALL;
    else if (thread->left_requests_most == 1)
        record->inside = ONE_REQUEST;
    else
        record->inside = thread->left_awaiting;
}

INLINE void report_block(struct thread *thread, u64 ids)
{
    struct blocked *record = reserve(BLOCKED, ids, sizeof(*record));
    if (record) {
        record->unused = 0;
        fill_block(&record->block, thread);
        ring_submit(record, NO_WAKEUP);
    }
}

/* The file of a descriptor of the current thread. */
INLINE struct file *open_file(s64 fd)
{
    struct files_struct *files = READ(current_task(), files);
    struct fdtable *table = READ(files, fdt);
    struct file **open = READ(table, fd);
    struct file *file = 0;
    read_kernel(&file, sizeof(file), &open[fd]);
    return file;
}

INLINE void identify(struct identity *found, struct file *file)
{
    struct inode *inode = READ(file, f_inode);
    struct super_block *super = READ(inode, i_sb);
    found->inode = READ(inode, i_ino);
    found->device = READ(super, s_dev);
    found->links = READ(inode, i_nlink);
    found->mode = READ(inode, i_mode);
    found->unused = 0;
}

/* O_APPEND. */
#define APPENDS 02000

static __attribute__((noinline)) int report_named(struct thread *thread, u64 ids, u64 now_ns, s64 ret)
{
    if (!thread)
        return 0;
    u16 opened = thread->flags & OPENS && ret >= 0;
    struct named *record =
        reserve(opened ? CALL_OPENED : CALL_NAMED, ids, sizeof(*record));
    if (!record)
        return 0;
    fill_call(&record->call, thread, now_ns, ret);
    struct file *file = opened ? open_file(ret) : 0;
    identify(&record->file, file);
    record->append_at = READ(file, f_flags) & APPENDS ? READ(READ(file, f_inode), i_size) : -1;
    record->path_bytes =
        read_user_string(record->path, sizeof(record->path), (void *)thread->path);
    ring_submit(record, NO_WAKEUP);
    return 0;
}

INLINE void report_call(struct thread *thread, u64 ids, u64 now_ns, s64 ret)
{
    count(CALLS);
    if (thread->flags & (PATH_FIRST | PATH_SECOND)) {
        if (thread->block_start_ns)
            report_block(thread, ids);
        report_named(thread, ids, now_ns, ret);
    } else if (thread->block_start_ns) {
        struct call_blocked *record = reserve(CALL_BLOCKED, ids, sizeof(*record));
        if (record) {
            fill_call(&record->call, thread, now_ns, ret);
            fill_block(&record->block, thread);
            ring_submit(record, NO_WAKEUP);
        }
    } else {
        struct call *record = reserve(CALL, ids, sizeof(*record));
        if (record) {
            fill_call(record, thread, now_ns, ret);
            ring_submit(record, NO_WAKEUP);
        }
    }
}

/* RWF_APPEND of pwritev2, AT_REMOVEDIR of unlinkat and CLOSE_RANGE_CLOEXEC of close_range. */
#define WRITES_AT_END 0x10
#define REMOVES_FOLDER 0x200
#define CLOSES_LATER 0x4

/* Whether fcntl duplicates the descriptor: F_DUPFD, F_DUPFD_CLOEXEC. */
INLINE int duplicates(u64 command)
{
    return command == 0 || command == 1030;
}

SECTION("tp_btf/sys_enter") int call_begins(u64 *context)
{
    u64 number = context[1];
    if (number >= CALLS_MAX || !kind_of_call[number])
        return 0;
    u64 ids = current_ids();
    struct thread *thread = observed(ids);
    if (!thread)
        return 0;
    u16 flags = flags_of_call[number];
    if (flags & RING) {
        leave_alone(thread);
        thread->kind = kind_of_call[number];
        thread->flags = flags;
        return 0;
    }
    struct registers *registers = (void *)context[0];
    if (OF_32_BITS(registers)) {
        /* A 32-bit call: its number means another call, and its arguments are elsewhere. */
        count(LOST);
        return 0;
    }
    if (flags & FCNTL && !duplicates((u32)ARGUMENT_1(registers)))
        return 0;
    if (flags & UNLINKAT && ARGUMENT_2(registers) & REMOVES_FOLDER)
        return 0;
    if (flags & RANGE && ARGUMENT_2(registers) & CLOSES_LATER)
        return 0;
    /* While a request of io_uring is in flight, what the thread does meanwhile is other work. */
    if (flags & LOOKUP && thread->requests)
        return 0;
    u64 now_ns = monotonic_ns();
    if (flags & TIMED) {
        settle(thread, now_ns);
        thread->call_start_ns = now_ns;
        thread->call_cpu_before_ns = thread->cpu_ns;
        thread->inside_cpu_ns = 0;
        if (thread->requests && thread->requests_most == 1)
            thread->requests_most = 2;
    }
    thread->call_blocked = 0;
    thread->block_start_ns = 0;
    thread->fd = flags & PATH_FIRST ? -1 : (s32)ARGUMENT_0(registers);
    thread->path = flags & PATH_FIRST ? ARGUMENT_0(registers) : ARGUMENT_1(registers);
    thread->offset = flags >> OFFSET_SHIFT == 3   ? ARGUMENT_3(registers)
                     : flags >> OFFSET_SHIFT == 2 ? ARGUMENT_2(registers)
                                                  : ARGUMENT_1(registers);
    if (flags & MAY_APPEND && ARGUMENT_5(registers) & WRITES_AT_END)
        thread->offset = ~0ULL >> 1;
    thread->flags = flags;
    thread->kind = kind_of_call[number];
    if (flags & AT_ENTRY) {
        report_call(thread, ids, now_ns, 0);
        thread->kind = thread->flags = 0;
    }
    return 0;
}

SECTION("raw_tp/sys_exit") int call_ends(u64 *context)
{
    u64 ids = current_ids();
    struct thread *thread = observed(ids);
    if (!thread || !thread->kind)
        return 0;
    if (thread->flags & RING) {
        leave_alone(thread);
        thread->kind = thread->flags = 0;
        return 0;
    }
    u64 now_ns = monotonic_ns();
    if (thread->flags & TIMED)
        settle(thread, now_ns);
    if (thread->flags & LOOKUP && !thread->call_blocked) {
        /* Answered from memory: it counts as work of the thread. */
        thread->cpu_ns += thread->inside_cpu_ns;
        thread->kind = thread->flags = 0;
        return 0;
    }
    report_call(thread, ids, now_ns, (s64)context[1]);
    if (thread->flags & TIMED)
        thread->cpu_ns = 0;
    thread->kind = thread->flags = 0;
    return 0;
}

/* The state in which a thread is scheduled out; 0 if it can still run. */
INLINE u32 state_of(struct task_struct *task)
{
    struct task_struct___before *before = (void *)task;
    if (EXISTS(task->__state))
        return READ(task, __state);
    return READ(before, state);
}

/* What a thread that is scheduled out in a state waits for, outside of timed calls: if no signal can
 * end the wait, the kernel may be at work for it. TASK_IDLE is excluded. */
INLINE u32 awaited(struct thread *thread, struct task_struct *task, u32 state)
{
    if ((state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) != TASK_UNINTERRUPTIBLE)
        return NOTHING;
    if (thread->reclaims)
        return WRITEBACK;
    return READ_BITS(task, in_iowait) ? OTHER_IO : NOTHING;
}

INLINE void leave(u64 ids, u64 preempted, struct task_struct *task, u64 now_ns)
{
    struct thread *thread = observed(ids);
    if (!thread)
        return;
    count(SWITCHES);
    settle(thread, now_ns);
    thread->on_cpu_since_ns = 0;
    thread->left_ns = 0;
    thread->left_requests_most = thread->requests_most;
    u32 state = preempted ? 0 : state_of(task);
    if (state) {
        thread->left_ns = now_ns;
        thread->left_awaiting = thread->flags & TIMED ? NOTHING : awaited(thread, task, state);
        thread->call_blocked = 1;
    }
}

INLINE void come(struct task_struct *task, u64 now_ns)
{
    u64 ids = (u64)(u32)READ(task, tgid) << 32 | (u32)READ(task, pid);
    struct thread *thread = observed(ids);
    if (!thread)
        return;
    thread->on_cpu_since_ns = now_ns;
    u64 start_ns = thread->left_ns, waking_ns = thread->waking_ns;
    thread->left_ns = thread->waking_ns = 0;
    if (!start_ns)
        return;
    if (thread->flags & TIMED && thread->block_start_ns)
        report_block(thread, ids);
    thread->block_start_ns = start_ns;
    thread->block_end_ns = now_ns;
    thread->block_woken_by = waking_ns ? thread->waking_tid : 0;
    if (waking_ns && waking_ns < now_ns)
        thread->block_end_ns = waking_ns < start_ns ? start_ns : waking_ns;
    if (thread->next_major_fault && !thread->fault_wait_ns)
        thread->fault_wait_ns = thread->block_end_ns - start_ns;
    if (thread->flags & TIMED) {
        thread->block_cpu_before_ns = thread->inside_cpu_ns;
        thread->inside_cpu_ns = 0;
        return;
    }
    if (thread->left_requests_most == 1 && !(thread->flags & RING))
        thread->busy_ns += thread->cpu_ns;
    thread->block_cpu_before_ns = thread->cpu_ns;
    thread->cpu_ns = 0;
    report_block(thread, ids);
    thread->block_start_ns = 0;
}

SECTION("raw_tp/sched_switch") int thread_switches(u64 *context)
{
    u64 now_ns = monotonic_ns();
    leave(current_ids(), context[0], (void *)context[1], now_ns);
    come((void *)context[2], now_ns);
    return 0;
}

/* Whether this runs in an interrupt, and so not on the stack of the current thread. */
INLINE int in_interrupt(u64 *context)
{
    u64 *on_stack = context;
    u64 address = 0;
    read_kernel(&address, sizeof(address), &on_stack);
    return address - (u64)READ(current_task(), stack) >= stack_bytes;
}

SECTION("raw_tp/sched_waking") int thread_wakes(u64 *context)
{
    struct task_struct *task = (void *)context[0];
    u32 tid = READ(task, pid);
    struct thread *woken = map_lookup(&threads, &tid);
    if (!woken || !(woken->role & OBSERVED))
        return 0;
    /* The first waking after the thread was scheduled out counts. One just before that counts only if
     * no other follows: the thread was about to be scheduled out. */
    if (woken->waking_ns && woken->left_ns && woken->waking_ns >= woken->left_ns)
        return 0;
    u64 ids = current_ids();
    woken->waking_tid = observed(ids) && !in_interrupt(context) ? (s32)ids : 0;
    woken->waking_ns = monotonic_ns();
    return 0;
}

INLINE void report_stack(struct registers *registers, u64 ids, u64 now_ns)
{
    u32 what = SAMPLES;
    u64 *samples = map_lookup(&counts, &what);
    if (!samples || ++*samples % SAMPLES_PER_STACK)
        return;
    struct stack *record = ring_reserve(&stacks, sizeof(*record), 0);
    if (!record)
        return;
    record->header.type = STACK_SAMPLE;
    record->header.pid = ids >> 32;
    record->header.tid = (u32)ids;
    record->time_ns = now_ns;
    record->ip = INSTRUCTION(registers);
    record->sp = STACK(registers);
    record->fp = FRAME(registers);
    record->lr = LINK(registers);
    record->bytes = 0;
    /* A read fails if any of its bytes is not in memory, as beyond the stack: so the last part is read
     * in pieces. */
    for (u32 part = 0; part < STACK_PARTS; part++) {
        u64 from = record->sp + part * STACK_PART_BYTES;
        if (!read_user(record->stack[part], STACK_PART_BYTES, (void *)from)) {
            record->bytes += STACK_PART_BYTES;
            continue;
        }
        for (u32 at = 0; at < STACK_PART_BYTES; at += STACK_PIECE_BYTES) {
            if (read_user(record->stack[part] + at, STACK_PIECE_BYTES, (void *)(from + at)))
                break;
            record->bytes += STACK_PIECE_BYTES;
        }
        break;
    }
    ring_submit(record, NO_WAKEUP);
}

/* Samples what runs on each CPU, by its clock. Addresses of the kernel are negative. */
SECTION("perf_event") int cpu_sampled(struct registers *registers)
{
    s64 ip = INSTRUCTION(registers);
    u64 ids = current_ids();
    if (ip <= 0 || !observed(ids))
        return 0;
    u64 now_ns = monotonic_ns();
    report_stack(registers, ids, now_ns);
    struct sample *record = reserve(SAMPLE, ids, sizeof(*record));
    if (record) {
        record->unused = 0;
        record->time_ns = now_ns;
        record->ip = ip;
        ring_submit(record, NO_WAKEUP);
    }
    return 0;
}

#include "faults.h"
#include "requests.h"
#include "life.h"

char license_of_programs[] SECTION("license") = "GPL";
