/* SPDX-License-Identifier: MIT */
/*
 * The operations of sockets: opdef.c has their rows
 *
 * Tested by test-uring-socket.c.
 */
#ifndef UAIO_URING_NET_H
#define UAIO_URING_NET_H

#include "uring/fs.h"

uaio_uring_prep_fn uaio_uring_prep_send;
uaio_uring_prep_fn uaio_uring_prep_send_zc;
uaio_uring_prep_fn uaio_uring_prep_sendmsg;
uaio_uring_prep_fn uaio_uring_prep_sendmsg_zc;
uaio_uring_prep_fn uaio_uring_prep_recv;
uaio_uring_prep_fn uaio_uring_prep_recvmsg;
uaio_uring_prep_fn uaio_uring_prep_accept;
uaio_uring_prep_fn uaio_uring_prep_connect;
uaio_uring_prep_fn uaio_uring_prep_shutdown;
uaio_uring_prep_fn uaio_uring_prep_socket;
uaio_uring_prep_fn uaio_uring_prep_bind;
uaio_uring_prep_fn uaio_uring_prep_listen;
uaio_uring_prep_fn uaio_uring_prep_cmd;

#endif /* UAIO_URING_NET_H */
