#!/usr/bin/env bash
# A profile of an extended SQL trace with grep and awk, as in the blog post that spillcast started
# from: lists the events, then searches and sums each of them in a separate pass.
#
#     bench/seed_profiler.sh TRACE
#
# An event whose name is part of another's is counted for both, as in the post.
set -euo pipefail

trace=$1

waits() {
    grep '^WAIT' "$trace" | grep -v 'SQL\*Net message'
}

total_ms=$(waits | awk -F "'" '{ print $3 }' | awk '{ sum += $2 } END { print sum / 1000 }')
printf '%s ms in waits\n' "$total_ms"

waits | awk -F "'" '{ print $2 }' | sort | uniq | while read -r event; do
    grep '^WAIT' "$trace" | grep -F "$event" | awk -F "'" '{ print $3 }' |
        awk -v event="$event" -v total_ms="$total_ms" '
            { count++; sum += $2 }
            END {
                printf "%-40s %12.1f ms %6.2f %% %10d waits, mean %8.0f us\n",
                    event, sum / 1000, 100 * sum / 1000 / total_ms, count, sum / count
            }'
done
