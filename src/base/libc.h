/* SPDX-License-Identifier: MIT */
/*
 * Support for a C library other than the one that the library was built for
 *
 * Programs of all kinds inherit LD_PRELOAD. A program built for musl would not start if a
 * function that the library imports were missing. So functions that only glibc has are
 * imported weakly; where one is missing, its address is NULL.
 *
 * Tested by test/run/strangers.py.
 */
#ifndef UAIO_BASE_LIBC_H
#define UAIO_BASE_LIBC_H

#include <features.h> /* __GLIBC__ */
#include <stdbool.h>

/* only in glibc */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* Return: whether the process runs the C library that the library was built for. */
static inline bool uaio_libc_is_ours(void)
{
#ifdef __GLIBC__
	return gnu_get_libc_version;
#else
	return !gnu_get_libc_version;
#endif
}

/*
 * pthread_atfork() and at_quick_exit(). In glibc, a static part of them is linked into
 * each object, and strongly imports the two functions below. So the library calls these
 * directly. Other C libraries export the two functions normally.
 */
extern void *__dso_handle __attribute__((visibility("hidden")));
extern int __register_atfork(void (*before)(void), void (*after)(void),
			     void (*in_child)(void), void *dso)
	__attribute__((weak));
extern int __cxa_at_quick_exit(void (*call)(void *), void *dso)
	__attribute__((weak));
extern int uaio_other_atfork(void (*before)(void), void (*after)(void),
			     void (*in_child)(void)) __asm__("pthread_atfork")
	__attribute__((weak));
extern int uaio_other_at_quick_exit(void (*call)(void)) __asm__("at_quick_exit")
	__attribute__((weak));

/*
 * pthread_cleanup_push() and pthread_cleanup_pop() of musl, for a library that was built
 * for glibc. glibc's are macros whose functions only glibc has. glibc also has functions
 * of musl's names, from older versions, but with one difference: siglongjmp() calls the
 * handlers that they have pushed in the frames that it leaves.
 */
struct uaio_other_cleanup {
	void *words[4]; /* musl's: 3 */
};
extern void uaio_other_cleanup_push(struct uaio_other_cleanup *buffer,
				    void (*call)(void *),
				    void *arg) __asm__("_pthread_cleanup_push")
	__attribute__((weak));
extern void
uaio_other_cleanup_pop(struct uaio_other_cleanup *buffer,
		       int is_called) __asm__("_pthread_cleanup_pop")
	__attribute__((weak));

static inline void uaio_libc_atfork(void (*before)(void), void (*after)(void),
				    void (*in_child)(void))
{
	if (__register_atfork)
		(void)__register_atfork(before, after, in_child, __dso_handle);
	else if (uaio_other_atfork)
		(void)uaio_other_atfork(before, after, in_child);
}

static inline void uaio_libc_at_quick_exit(void (*call)(void))
{
	/* The call passes an argument, in a register, which the function ignores. */
	if (__cxa_at_quick_exit)
		(void)__cxa_at_quick_exit((void (*)(void *))call, __dso_handle);
	else if (uaio_other_at_quick_exit)
		(void)uaio_other_at_quick_exit(call);
}

#endif /* UAIO_BASE_LIBC_H */
