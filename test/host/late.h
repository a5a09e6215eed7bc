/* SPDX-License-Identifier: MIT */
#ifndef LATE_H
#define LATE_H

/*
 * The destructor of the library `late` calls this function. By then the destructors of
 * preloaded libraries have run.
 */
extern void (*late_hook)(void);

#endif /* LATE_H */
