/* Requests of io_uring that read and write files, from submission to completion. */
#pragma once

#define REQUESTS_MAX 16384

struct request {
    u64 ids;
    u64 start_ns;
    s64 offset;
    u64 cpu_before_ns;
    u32 write;
    u32 unused;
};

/* By the address of the kernel's struct io_kiocb. */
struct {
    COUNT(type, MAP_HASH);
    COUNT(max_entries, REQUESTS_MAX);
    u64 *key;
    struct request *value;
} requests SECTION(".maps");

/* Values of include/uapi/linux/io_uring.h. */
enum { FIXED_FILE = 1 << 0, NO_COMPLETION = 1 << 6 };
enum { S_IFMT = 0170000, S_IFREG = 0100000 };
enum move { NO_MOVE, READS, WRITES, COPIES };

INLINE enum move move_of(u8 opcode)
{
    switch (opcode) {
    case 1:  /* READV */
    case 4:  /* READ_FIXED */
    case 22: /* READ */
    case 60: /* READV_FIXED */
        return READS;
    case 2:  /* WRITEV */
    case 5:  /* WRITE_FIXED */
    case 23: /* WRITE */
    case 61: /* WRITEV_FIXED */
        return WRITES;
    case 30: /* SPLICE */
        return COPIES;
    default:
        return NO_MOVE;
    }
}

/* Whether it may be on a regular file: the kernel looks a registered file up later. */
INLINE int may_be_on_a_file(struct io_kiocb *request, u32 flags)
{
    if (flags & FIXED_FILE)
        return 1;
    struct file *file = open_file(READ(request, cqe.fd));
    struct inode *inode = READ(file, f_inode);
    return (READ(inode, i_mode) & S_IFMT) == S_IFREG;
}

/* Adds a request in flight to the thread that submitted it. */
INLINE void submitted(struct thread *thread, struct request *request)
{
    settle(thread, request->start_ns);
    request->cpu_before_ns = thread->cpu_ns;
    thread->cpu_ns = 0;
    u32 under_way = __sync_fetch_and_add(&thread->requests, 1) + 1;
    if (under_way == 1)
        thread->busy_ns = 0;
    if (under_way > thread->requests_most)
        thread->requests_most = under_way;
}

SECTION("raw_tp/io_uring_submit_req") int request_begins(u64 *context)
{
    struct io_kiocb *kernels = (void *)context[0];
    enum move move = move_of(READ(kernels, opcode));
    u64 ids = current_ids(), key = context[0];
    if (move == NO_MOVE)
        return 0;
    struct thread *thread = observed(ids);
    /* A thread of the kernel may submit for a process; then the first thread of the process shows
     * whether it is observed. */
    if (!thread && !observed(ids >> 32))
        return 0;
    u32 flags = READ(kernels, flags);
    if (move != COPIES && !may_be_on_a_file(kernels, flags))
        return 0;
    /* The completion of a request at the same address was missed, or that of this one will not be
     * reported, or its two files are unknown. */
    if (flags & NO_COMPLETION || move == COPIES || map_lookup(&requests, &key)) {
        count(UNSEEN);
        return 0;
    }
    struct request request = {.ids = ids, .start_ns = monotonic_ns(), .write = move == WRITES};
    request.offset = READ((struct kiocb *)&kernels->file, ki_pos);
    if (thread)
        submitted(thread, &request);
    if (map_update(&requests, &key, &request, UPDATE_ANY))
        count(UNSEEN);
    return 0;
}

/* Removes a request in flight from the thread that submitted it. */
INLINE void completed(struct thread *thread, u64 ids, struct request_ended *record)
{
    if (ids == current_ids())
        leave_alone(thread);
    if (record) {
        record->most = thread->requests_most;
        record->busy_ns = thread->busy_ns;
    }
    /* The thread id may belong to another thread by now. */
    if (thread->requests && __sync_fetch_and_add(&thread->requests, -1) == 1)
        thread->requests_most = 0;
}

SECTION("raw_tp/io_uring_complete") int request_ends(u64 *context)
{
    struct io_kiocb *kernels = (void *)context[1];
    u64 key = context[1], now_ns = monotonic_ns();
    struct request *request = map_lookup(&requests, &key);
    if (!request)
        return 0;
    struct request_ended *record = reserve(REQUEST, request->ids, sizeof(*record));
    struct thread *thread = observed(request->ids);
    if (record) {
        /* It is unknown who waits for a request that a thread of the kernel submitted. */
        record->most = 1;
        record->busy_ns = now_ns - request->start_ns;
    }
    if (thread)
        completed(thread, request->ids, record);
    if (record) {
        record->write = request->write;
        record->start_ns = request->start_ns;
        record->end_ns = now_ns;
        s32 ret = READ(kernels, cqe.res);
        s64 position = READ((struct kiocb *)&kernels->file, ki_pos);
        /* Without an offset, it began at the file position. */
        record->offset = request->offset >= 0 ? request->offset : position - ret;
        record->cpu_before_ns = request->cpu_before_ns;
        identify(&record->file, READ(kernels, file));
        record->ret = ret;
        ring_submit(record, NO_WAKEUP);
    }
    map_delete(&requests, &key);
    return 0;
}
