/* SPDX-License-Identifier: MIT */
/*
 * Requests that the kernel executes asynchronously (native.h): submitting and completing
 *
 * A handover is the list of requests that a thread is about to give to workers. A
 * handover also collects the requests for the kernel. One system call submits all
 * requests of one queue that the handover has collected.
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
 * Add a request, which is PREPPED (about to be started), to the handover, for the
 * kernel's own AIO.
 * Return: false, having done nothing, if the kernel is not to execute the request.
 */
bool uaio_kernel_add(struct uaio_req *req, struct uaio_handover *handover);

/*
 * Add a request, which is PREPPED (about to be started), to the handover, for the driver
 * to submit (driver.h).
 * Return: false, having done nothing, if the driver is not to submit it.
 */
bool uaio_kernel_line(struct uaio_req *req, struct uaio_handover *handover);

/* Return: as uaio_driver_takes(). */
bool uaio_kernel_takes(const struct uaio_file *file,
		       const struct uaio_sqe *sqe);

/*
 * Submit the requests that the handover has collected for the kernel. Requests that the
 * kernel refuses are added to the handover again, for workers.
 */
void uaio_kernel_hand_over(struct uaio_handover *handover);

/*
 * A worker is about to execute a RUNNING request. If the request is suited for kernel
 * AIO, submit it instead, so that the kernel and not the worker waits for the device.
 * Blocks while io_submit runs. In most cases io_submit does not wait until the device
 * has executed the request (native.h).
 * Return: false: nothing was done; true: the request is submitted, and may be complete.
 */
bool uaio_kernel_submit(struct uaio_req *req, struct uaio_worker *worker);

/*
 * A function of struct uaio_flow_ops: complete requests of one queue that the kernel has
 * executed.
 */
void uaio_req_complete_native(struct uaio_req *const *reqs,
			      const int64_t *results, unsigned nr);

#endif /* UAIO_FLOW_KERNEL_H */
