/* Starts and ends of threads and processes, and execs. */
#pragma once

INLINE void report_life(u32 type, u64 ids, u32 child, u32 role, u32 live, u64 cpu_ns)
{
    struct life *record = reserve(type, ids, sizeof(*record));
    if (record) {
        record->child = child;
        record->role = role;
        record->live = live;
        record->cpu_ns = cpu_ns;
        ring_submit(record, NO_WAKEUP);
    }
}

SECTION("raw_tp/sched_process_fork") int thread_starts(u64 *context)
{
    u64 ids = current_ids();
    u32 tid = (u32)ids, pid = ids >> 32;
    struct thread *parent = map_lookup(&threads, &tid);
    if (!parent)
        return 0;
    struct task_struct *task = (void *)context[1];
    u32 child = READ(task, pid), child_pid = READ(task, tgid);
    struct thread started = {};
    u32 role = parent->role;
    started.role = child_pid == pid ? role : OBSERVED;
    if (map_update(&threads, &child, &started, UPDATE_ANY))
        count(LOST);
    if (child_pid != pid)
        report_life(FORK, ids, child_pid, role, 0, 0);
    return 0;
}

SECTION("raw_tp/sched_process_exec") int program_starts(u64 *context)
{
    u64 ids = current_ids();
    u32 tid = (u32)ids, before = (u32)context[1];
    /* If a thread other than the first executes a program, it takes over the id of the process. */
    struct thread *thread = map_lookup(&threads, &before);
    if (!thread)
        return 0;
    if (before != tid) {
        struct thread same = *thread;
        map_update(&threads, &tid, &same, UPDATE_ANY);
        map_delete(&threads, &before);
    }
    if (thread->role & OBSERVED)
        report_life(EXEC, ids, 0, 0, 0, 0);
    return 0;
}

SECTION("raw_tp/sched_process_exit") int thread_ends(u64 *context)
{
    (void)context;
    u64 ids = current_ids();
    u32 tid = (u32)ids;
    struct thread *thread = map_lookup(&threads, &tid);
    if (!thread)
        return 0;
    settle(thread, monotonic_ns());
    settle_fault(thread, READ(current_task(), maj_flt));
    u32 live = READ(READ(current_task(), signal), live.counter);
    report_life(THREAD_EXIT, ids, 0, thread->role, live, thread->cpu_ns);
    map_delete(&threads, &tid);
    return 0;
}
