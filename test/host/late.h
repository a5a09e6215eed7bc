/* SPDX-License-Identifier: MIT */
#ifndef LATE_H
#define LATE_H

/* Called when the process exits, after a preloaded library was taken down. */
extern void (*late_hook)(void);

#endif /* LATE_H */
