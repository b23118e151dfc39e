/* Page faults of the observed threads that read a file, and memory that they free for themselves. The
 * tracepoint of faults on files fires for cached pages, too. So the thread's count of major faults is
 * read with it: if the count is one higher at the next fault, this fault had to read. */
#pragma once

/* Counts the last fault on a file's page, and its wait, if it had to read: then the thread has one more
 * major fault. */
INLINE void settle_fault(struct thread *thread, u64 major)
{
    if (thread->next_major_fault && major >= thread->next_major_fault) {
        count(FILE_FAULTS);
        add(FILE_FAULT_NS, thread->fault_wait_ns);
    }
    thread->next_major_fault = 0;
}

/* Whether a fault is a retry on the same page after a wait for it: it counts once. */
INLINE int tried_again(struct thread *thread, u64 major, u64 mapping, u64 index)
{
    return thread->next_major_fault == major + 1 && thread->fault_mapping == mapping &&
           thread->fault_index == index;
}

SECTION("raw_tp/mm_filemap_fault") int file_faults(u64 *context)
{
    struct thread *thread = observed(current_ids());
    if (!thread)
        return 0;
    u64 major = READ(current_task(), maj_flt), mapping = context[0], index = context[1];
    if (tried_again(thread, major, mapping, index))
        return 0;
    settle_fault(thread, major);
    thread->next_major_fault = major + 1;
    thread->fault_mapping = mapping;
    thread->fault_index = index;
    thread->fault_wait_ns = 0;
    return 0;
}

INLINE void set_reclaims(u32 reclaims)
{
    struct thread *thread = observed(current_ids());
    if (thread)
        thread->reclaims = reclaims;
}

#define RECLAIM(begins, ends, tracepoint)                                                          \
    SECTION("raw_tp/" tracepoint "_begin") int begins(u64 *context)                                \
    {                                                                                              \
        (void)context;                                                                             \
        set_reclaims(1);                                                                           \
        return 0;                                                                                  \
    }                                                                                              \
    SECTION("raw_tp/" tracepoint "_end") int ends(u64 *context)                                    \
    {                                                                                              \
        (void)context;                                                                             \
        set_reclaims(0);                                                                           \
        return 0;                                                                                  \
    }

RECLAIM(reclaim_begins, reclaim_ends, "mm_vmscan_direct_reclaim")
RECLAIM(group_reclaim_begins, group_reclaim_ends, "mm_vmscan_memcg_reclaim")
