/* What the programs use of the kernel: its helpers, and the fields of its structures that are read. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define COUNT(name, number) int (*name)[number]

enum { MAP_HASH = 1, MAP_PERCPU_ARRAY = 6, MAP_RINGBUF = 27 };
/* States of a task. */
enum { TASK_UNINTERRUPTIBLE = 0x2, TASK_NOLOAD = 0x400 };
enum { UPDATE_ANY = 0, UPDATE_NEW = 1 };
/* The reader polls the ring: a wake-up would cost the observed thread a microsecond. */
enum { NO_WAKEUP = 1 };

/* The numbers are the kernel's: see enum bpf_func_id of linux/bpf.h. */
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*monotonic_ns)(void) = (void *)5;
static u64 (*current_ids)(void) = (void *)14;
static struct task_struct *(*current_task)(void) = (void *)35;
static long (*read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*read_user_string)(void *to, u32 bytes, const void *from) = (void *)114;
static void *(*ring_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*ring_submit)(void *record, u64 flags) = (void *)132;

/* Reads a field of a structure, at the offset that it has in the running kernel. */
#define READ(from, field)                                                                          \
    ({                                                                                             \
        __typeof__((from)->field) value = 0;                                                       \
        read_kernel(&value, sizeof(value), &(from)->field);                                        \
        value;                                                                                     \
    })
/* The same for a bit field. */
#define READ_BITS(from, field)                                                                     \
    ({                                                                                             \
        u64 bits = 0;                                                                              \
        read_kernel(&bits, __builtin_preserve_field_info((from)->field, 1),                        \
                    (char *)(from) + __builtin_preserve_field_info((from)->field, 0));             \
        bits << __builtin_preserve_field_info((from)->field, 4) >>                                 \
            __builtin_preserve_field_info((from)->field, 5);                                       \
    })
#define EXISTS(field) __builtin_preserve_field_info(field, 2)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
    u32 s_dev;
};

struct inode {
    u16 i_mode;
    u32 i_nlink;
    unsigned long i_ino;
    s64 i_size;
    struct super_block *i_sb;
};

struct address_space {
    struct inode *host;
};

struct file {
    struct inode *f_inode;
    unsigned int f_flags;
};

struct fdtable {
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

typedef struct {
    s32 counter;
} atomic_t;

struct signal_struct {
    atomic_t live;
};

struct task_struct {
    s32 pid;
    s32 tgid;
    unsigned int __state;
    unsigned in_iowait : 1;
    void *stack;
    struct files_struct *files;
    struct signal_struct *signal;
    unsigned long maj_flt;
};

/* The field's name and type before Linux 5.14. */
struct task_struct___before {
    long state;
};

struct kiocb {
    s64 ki_pos;
};

struct io_cqe {
    s32 res;
    s32 fd;
};

/* A request that reads or writes begins with a struct kiocb, which begins with the file. */
struct io_kiocb {
    struct file *file;
    u8 opcode;
    u32 flags;
    struct io_cqe cqe;
};

#pragma clang attribute pop

#if defined(__TARGET_ARCH_x86)
/* struct pt_regs up to the code segment: the same for user space since 2003. */
struct registers {
    u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip;
    u16 cs;
    u64 flags, sp;
};
enum { CS_OF_32_BITS = 0x23 };
#define INSTRUCTION(registers) ((registers)->ip)
#define STACK(registers) ((registers)->sp)
#define FRAME(registers) ((registers)->bp)
#define LINK(registers) 0
#define ARGUMENT_0(registers) ((registers)->di)
#define ARGUMENT_1(registers) ((registers)->si)
#define ARGUMENT_2(registers) ((registers)->dx)
#define ARGUMENT_3(registers) ((registers)->r10)
#define ARGUMENT_5(registers) ((registers)->r9)
#define OF_32_BITS(registers) ((registers)->cs == CS_OF_32_BITS)
#elif defined(__TARGET_ARCH_arm64)
struct registers {
    u64 x[31], sp, pc, pstate;
};
enum { PSTATE_OF_32_BITS = 0x10 };
#define INSTRUCTION(registers) ((registers)->pc)
#define STACK(registers) ((registers)->sp)
#define FRAME(registers) ((registers)->x[29])
#define LINK(registers) ((registers)->x[30])
#define ARGUMENT_0(registers) ((registers)->x[0])
#define ARGUMENT_1(registers) ((registers)->x[1])
#define ARGUMENT_2(registers) ((registers)->x[2])
#define ARGUMENT_3(registers) ((registers)->x[3])
#define ARGUMENT_5(registers) ((registers)->x[5])
#define OF_32_BITS(registers) ((registers)->pstate & PSTATE_OF_32_BITS)
#else
#error "where this processor keeps the arguments of a system call is not known"
#endif
