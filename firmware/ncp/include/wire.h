/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What goes over the link: a header of 64 bytes, then up to 4096 bytes of one message.
 *
 * A *stream* is (source node and port, destination node and port, priority). Its messages have numbers 1, 2, 3 … and
 * arrive in that order. A number is made by the control program (GM) or by the sender's library (FTGM).
 * `generation` tells the streams of one port from those of whoever had the port before.
 */
#ifndef SUREFOOT_NCP_WIRE_H
#define SUREFOOT_NCP_WIRE_H

#define WIRE_MAGIC 0x5346
#define WIRE_VERSION 1

/* word 0: magic (high half), version (8 bits), type (8 bits) */
#define PACKET_DATA 1 /* a part of a message */
#define PACKET_ACK 2 /* every message of the stream up to `sequence` has arrived */
#define PACKET_NACK 3 /* send again from message `sequence`, offset `offset`; `status` says why */
#define PACKET_DATAGRAM 4 /* a whole message, not numbered, not acknowledged */

/* Words of the header. Nodes, ports and priority are those of the stream: an ACK travels against it. */
#define HEADER_KIND 0
#define HEADER_ROUTE 1 /* destination node of this packet (8 bits, highest), node that sent it (8), flags (16) */
#define HEADER_STREAM 2 /* source node, source port, destination node, destination port: 8 bits each */
#define HEADER_SERVICE 3 /* SERVICE_*, priority in bit 8, size class in bits 16-23 */
#define HEADER_GENERATION 4 /* of the source port */
#define HEADER_SEQUENCE 5 /* number of the message */
#define HEADER_OFFSET 6 /* of the first byte of this packet in the message */
#define HEADER_BYTES 7 /* bytes of the message in this packet */
#define HEADER_MESSAGE_BYTES 8
#define HEADER_CHECKSUM 9 /* CRC-32 of the message and its addresses, from library to library */
#define HEADER_REMOTE 10 /* directed: the address in the destination port's memory */
#define HEADER_STATUS 11 /* NACK_* */
#define HEADER_PROOF 12 /* ACK: what the receiving library computed from the message; 0 where none does */
#define HEADER_TOKEN 13 /* the sender's token */
/* words 14 and 15: zero */

/* Flags of HEADER_ROUTE. */
#define ROUTE_DROP_ONCE 1 /* self-test: the receiving control program drops the first copy, as if it were lost */

/* Why a packet is asked for again, or never wanted. */
#define NACK_AGAIN 1 /* lost, damaged or out of order */
#define NACK_NO_BUFFER 2 /* no receive buffer of that size and priority: again, later */
#define NACK_CLOSED 3 /* the port is not open, or is of another generation: the stream ends */
#define NACK_REFUSED 4 /* a directed message outside of the port's memory */

#define SERVICE_NORMAL 1
#define SERVICE_DIRECTED 2
#define SERVICE_DATAGRAM 3

#endif
