/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The six kinds of service, each compiled by itself, and the table by which the others find them. */
#include "ncp.h"

#define SERVICE SERVICE_NORMAL
#define PRIORITY 0
#define NAME(x) x##_normal_low
static void recv_done_normal_low(struct receive_buffer *buffer);
#include "service.inc"
#undef SERVICE
#undef PRIORITY
#undef NAME

#define SERVICE SERVICE_NORMAL
#define PRIORITY 1
#define NAME(x) x##_normal_high
static void recv_done_normal_high(struct receive_buffer *buffer);
#include "service.inc"
#undef SERVICE
#undef PRIORITY
#undef NAME

#define SERVICE SERVICE_DIRECTED
#define PRIORITY 0
#define NAME(x) x##_directed_low
static void recv_done_directed_low(struct receive_buffer *buffer);
#include "service.inc"
#undef SERVICE
#undef PRIORITY
#undef NAME

#define SERVICE SERVICE_DIRECTED
#define PRIORITY 1
#define NAME(x) x##_directed_high
static void recv_done_directed_high(struct receive_buffer *buffer);
#include "service.inc"
#undef SERVICE
#undef PRIORITY
#undef NAME

#define SERVICE SERVICE_DATAGRAM
#define PRIORITY 0
#define NAME(x) x##_datagram_low
static void recv_done_datagram_low(struct receive_buffer *buffer);
#include "service.inc"
#undef SERVICE
#undef PRIORITY
#undef NAME

#define SERVICE SERVICE_DATAGRAM
#define PRIORITY 1
#define NAME(x) x##_datagram_high
static void recv_done_datagram_high(struct receive_buffer *buffer);
#include "service.inc"
#undef SERVICE
#undef PRIORITY
#undef NAME

#define SERVICE_ROW(kind) { check_##kind, send_chunk_##kind, recv_data_##kind, recv_done_##kind }
const struct service services[SERVICES] = {
	SERVICE_ROW(normal_low),   SERVICE_ROW(normal_high),  SERVICE_ROW(directed_low),
	SERVICE_ROW(directed_high), SERVICE_ROW(datagram_low), SERVICE_ROW(datagram_high),
};
