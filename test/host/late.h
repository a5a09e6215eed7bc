/* SPDX-License-Identifier: MIT */
#ifndef LATE_H
#define LATE_H

/* Called when the process exits, after the destructors of preloaded libraries. */
extern void (*late_hook)(void);

#endif /* LATE_H */
