#!/bin/busybox sh
# The first process of the guest: measures every source of SOURCES and prints a line for each result.
# Each line is: row SOURCE WHAT, then one line of JSON or the message of a refusal.

/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tracefs tracefs /sys/kernel/tracing
mkdir -p /dev/shm /work /sys/fs/bpf
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /work
mount -t bpf bpf /sys/fs/bpf
ulimit -n 1048576

row() {  # WHAT COMMAND...: its lines as rows of the source
    label="$1"
    shift
    # A source has a time limit, as the guest has a deadline.
    timeout -s KILL "$LIMIT_S" "$@" > /lines 2>&1 || echo "not within $LIMIT_S s" >> /lines
    sed "s/^/row $source $label /" /lines
}

attach_to_threads() {  # THREADS
    rm -f /gate /ready
    mkfifo /gate
    observed idle --count "$1" < /gate > /ready &
    program=$!
    exec 3> /gate
    until grep -q ready /ready; do sleep 0.1; done
    row "attach-$1" attach "$source" /work --pid "$program"
    exec 3>&-
    wait "$program"
}

bare_starts() {
    source=bare
    row start observed threads --dir /work --count "$STARTS" --rate "$STARTS_PER_S"
}

# The boot messages have no end of line.
echo
btf=absent
[ -e /sys/kernel/btf/vmlinux ] && btf=present
echo "row guest about {\"cpus\": $(nproc), \"kernel\": \"$(uname -r)\", \"btf\": \"$btf\"}"
observed threads --dir /work --count "$STARTS" > /dev/null
bare_starts
for each in $(echo "$SOURCES" | tr , ' '); do
    source="$each"
    row counts attach "$source" /work -- /bin/observed mixed --dir /work --count 20 --threads 4
    row start attach "$source" /work -- \
        /bin/observed threads --dir /work --count "$STARTS" --rate "$STARTS_PER_S"
    for threads in $(echo "$THREADS" | tr , ' '); do
        attach_to_threads "$threads"
    done
    bare_starts
done
poweroff -f
