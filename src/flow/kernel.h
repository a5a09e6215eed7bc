/* SPDX-License-Identifier: MIT */
/*
 * Requests that the kernel executes by itself (native.h): submitted, and completed
 *
 * They are noted in a handover, as work items are, and submitted with it: those of
 * one queue by one call.
 *
 * Tested by src/native/test-native.c.
 */
#ifndef UAIO_FLOW_KERNEL_H
#define UAIO_FLOW_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;
struct uaio_handover;
struct uaio_req;
struct uaio_sqe;
struct uaio_worker;

/*
 * Add a PREPPED request to handover, for the kernel. Return: false if it is none
 * for it: nothing was done.
 */
bool uaio_kernel_add(struct uaio_req *req, struct uaio_handover *handover);

/* The same for a request that the driver is to submit (driver.h). */
bool uaio_kernel_line(struct uaio_req *req, struct uaio_handover *handover);

/* Return: as uaio_driver_takes(). */
bool uaio_kernel_takes(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/*
 * Submit those of handover. Those that the kernel refuses are added to it again, for
 * workers.
 */
void uaio_kernel_hand_over(struct uaio_handover *handover);

/*
 * Submit a RUNNING request that a worker is about to execute, if it is one that the
 * kernel is to wait for. Blocks as long as the kernel does, which does not include
 * the device. Return: false: nothing was done; otherwise the request may be complete.
 */
bool uaio_kernel_submit(struct uaio_req *req, struct uaio_worker *worker);

/* A function of struct uaio_flow_ops: requests of one group, whose results these are. */
void uaio_req_complete_native(struct uaio_req *const *reqs,
			      const int64_t *results, unsigned nr);

#endif /* UAIO_FLOW_KERNEL_H */
