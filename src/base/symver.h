/* SPDX-License-Identifier: MIT */
/*
 * Symbol versions
 *
 * UAIO_SYMVER(function, "name@NODE") gives an exported function its versioned
 * name; "@@" makes it the default version. gcc has an attribute for that, which
 * works with -flto, too; clang ignores it and needs the assembler's directive.
 */
#ifndef UAIO_BASE_SYMVER_H
#define UAIO_BASE_SYMVER_H

#define UAIO_EXPORT __attribute__((visibility("default")))

#if defined(__clang__)
#define UAIO_SYMVER(function, version) \
	__asm__(".symver " #function ", " version)
#else
#define UAIO_SYMVER(function, version)       \
	extern __typeof__(function) function \
		__attribute__((symver(version), visibility("default")))
#endif

#endif /* UAIO_BASE_SYMVER_H */
