/* SPDX-License-Identifier: MIT */
/*
 * The offsets of the members of a thread's record (thread.h), for entry.S
 *
 * In each thread of the program, register gs has the address of the thread's record.
 */
#ifndef UAIO_TRAP_STATE_H
#define UAIO_TRAP_STATE_H

#define T_SELF 0
#define T_SERVED 8
#define T_ENTRY 16
#define T_RSP 24
#define T_FS 32
#define T_STACK 40
#define T_DONOR 48
#define T_SELECTOR 56
#define T_IS_INSIDE 57
#define T_IS_PENDING 58
#define T_IS_OFF_ALTERNATE 59
#define T_TARGET 64
#define T_MASK 72
#define T_FIRST_MASK 80
#define T_NR 88
#define T_PASS 96
#define T_RET 104
#define T_CHILD_MASK 112
#define T_DISPATCH 120
#define T_OFFSET 128
#define T_LENGTH 136
#define T_SAVED 144
#define T_ALTERNATE_LOW 184
#define T_ALTERNATE_BYTES 192
#define T_ENTRY_MASK 200

/* Size of the code of one slot (site.h), in bytes. */
#define SLOT_BYTES 64

/*
 * Values of the selector byte that the kernel reads under PR_SYS_DISPATCH_ON: make the
 * call, or raise SIGSYS.
 */
#define DISPATCH_PASS 0
#define DISPATCH_TRAP 1

#endif /* UAIO_TRAP_STATE_H */
