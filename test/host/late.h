/* SPDX-License-Identifier: MIT */
#ifndef LATE_H
#define LATE_H

/*
 * This library's destructor calls this function, after the destructors of preloaded
 * libraries.
 */
extern void (*late_hook)(void);

#endif /* LATE_H */
