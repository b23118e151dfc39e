/* Page faults of the observed threads that read a file. */
#pragma once

/* Counts the last fault on a file's page if it had to read: then the thread has one major fault more.
 * One that is tried again, for the page was not there yet, counts once. */
INLINE void settle_fault(struct thread *thread, u64 major)
{
    if (thread->next_major_fault && major >= thread->next_major_fault)
        count(FILE_FAULTS);
    thread->next_major_fault = 0;
}

SECTION("raw_tp/mm_filemap_fault") int file_faults(u64 *context)
{
    (void)context;
    struct thread *thread = observed(current_ids());
    if (!thread)
        return 0;
    u64 major = READ(current_task(), maj_flt);
    settle_fault(thread, major);
    thread->next_major_fault = major + 1;
    return 0;
}
