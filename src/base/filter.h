/* SPDX-License-Identifier: MIT */
/*
 * What a filter of system calls would answer
 *
 * A filter (seccomp) is a classic BPF program which sees the number and the
 * arguments of a call and nothing else. So we can run it ourselves to learn its
 * answer, without making the call.
 *
 * Tested by test/sandbox/filters.py.
 */
#ifndef UAIO_BASE_FILTER_H
#define UAIO_BASE_FILTER_H

#include <stdbool.h>

struct sock_fprog;

/*
 * Return: whether the filter lets the call through. False if its program cannot
 * be read, or if the kernel would refuse to install it.
 */
bool uaio_filter_allows(const struct sock_fprog *program, long nr,
			const long args[6]);

#endif /* UAIO_BASE_FILTER_H */
