/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The state of the control program, all of it, and what its parts call of each other.
 *
 *   main.c      the event loop
 *   commands.c  what ports ask for
 *   sdma.c      from the host's memory into a send buffer
 *   send.c      from send buffers and control packets onto the link
 *   recv.c      what arrives
 *   rdma.c      from receive buffers, and events, into the host's memory
 *   pages.c     from port addresses to bus addresses
 *   timer.c     L_timer: the watchdog's reset, retransmission, alarms
 *   service.inc the parts of one kind of service at one priority, compiled once for each of the six
 *
 * Three builds from one source:
 *   plain      GM: numbers of messages are made here, a message is acknowledged when it was taken in
 *   detecting  FDGM: and the watchdog is kept off as long as L_timer runs; self-tests may ask for losses
 *   tolerant   FTGM: and numbers are the library's, and a message is acknowledged when its event is in the host
 */
#ifndef SUREFOOT_NCP_H
#define SUREFOOT_NCP_H

#include "device.h"
#include "host.h"
#include "wire.h"

#if defined(NCP_TOLERANT) && !defined(NCP_DETECTING)
#define NCP_DETECTING
#endif

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

#define PRIORITIES 2
#define SERVICES 6
#define STREAMS (NODES * PORTS * PORTS * PRIORITIES)
#define L_TIMER_US 100
#define WATCHDOG_US 800
#define RETRY_US 2000
#define NO_BUFFER_RETRY_US 200
#define EVENTS_WAITING 64
#define CONTROLS_WAITING 64
#define COMMANDS_AT_ONCE 1
/* Receives stop while fewer than this many places are left in a port's event ring: they belong to its own sends. */
#define EVENT_ROOM_MIN (SEND_TOKENS + 16)
/* Nothing new is begun while fewer places than this are left for events that wait. */
#define EVENTS_SPARE 24

static inline volatile u32 *reg(u32 offset) { return (volatile u32 *)(REGISTERS + offset); }

/* What the host asked to be sent. */
enum { TOKEN_FREE, TOKEN_QUEUED, TOKEN_FETCHING, TOKEN_ON_THE_WAY };
struct send_token {
	u32 state;
	u32 order; /* when it was asked for, among those of its port */
	u32 token, address, length, stream, service, sequence, checksum, remote, flags, generation;
	u32 next; /* the first byte that was not fetched yet */
	u32 not_before_us, sent_us;
	u32 tries;
};

/* A buffer that the host provided. */
struct receive_token {
	u32 token, address;
	u16 size_class, priority;
	u32 state; /* 0 free, 1 provided, 2 being filled */
};

enum { PORT_SHUT, PORT_BACK_SOON, PORT_OPENING, PORT_OPEN };
struct port {
	u32 state;
	u32 generation;
	u32 verifies;
	u32 events_posted, events_consumed; /* also of those that wait to be posted */
	u32 orders;
	u32 queued; /* tokens in TOKEN_QUEUED */
	u32 alarm_token, alarm_at_us, alarm_is_set;
	struct send_token sends[SEND_TOKENS];
	struct receive_token receives[RECEIVE_TOKENS];
};

/* What is known of a stream that ends here. */
struct stream {
	u32 generation;
	u32 next; /* the number of the message that is expected */
	u32 offset; /* and which byte of it */
	u32 arrived; /* acknowledged up to here */
	u32 proof;
	u8 buffer; /* receive token that more packets are to fill + 1 */
	u8 control; /* CONTROL_* that waits to be sent */
	u8 nack_status;
	u8 nacked; /* a NACK for this place was sent already */
	u32 checksum;
	u32 dropped; /* self-test: the number that was dropped on purpose */
};
#define CONTROL_ACK 1
#define CONTROL_NACK 2

/* A packet that is fetched and leaves. */
enum { BUFFER_FREE, BUFFER_FETCHING, BUFFER_READY, BUFFER_LEAVING };
struct send_buffer {
	u32 state;
	u32 order;
	struct send_token *token; /* 0 when what is fetched is not wanted any more */
	u32 port, from, wanted, fetched; /* the part of the message */
	u32 packet[PACKET_BYTES_MAX / 4];
};

/* A packet that arrived and is written to the host. */
enum { ARRIVED_NOT, ARRIVED_NEW, ARRIVED_WRITING };
struct receive_buffer {
	u32 state;
	u32 packet[PACKET_BYTES_MAX / 4];
	u32 order; /* of arming, and so of arrival */
	u32 port, to, written; /* where its data goes, and how much went */
	u32 place; /* of the receive token that it fills, + 1; the stream may be at its next message already */
	struct stream *stream;
};

/* An event on its way to the host. */
struct waiting_event {
	u32 port;
	u32 words[16];
	struct stream *stream; /* to be acknowledged when the event is in the host; 0 for none */
	u32 arrived;
};

/* Who uses the host DMA. */
enum { DMA_IDLE, DMA_OF_SDMA, DMA_OF_RDMA, DMA_OF_EVENT, DMA_OF_PAGE };

struct translated {
	u32 key; /* port and page + 1 */
	u32 bus;
};
#define TRANSLATIONS 64

struct ncp {
	u32 node;
	u32 dma_of;
	u32 is_fetching; /* a packet was begun and may not be fetched yet */
	u32 fetch_is_next; /* the last DMA was to the host */
	struct send_buffer *dma_send;
	struct receive_buffer *dma_receive;
	u32 dma_bytes;
	struct translated *dma_page;
	u32 page_entry;
	u32 page_key;
	u32 arrivals, departures;
	struct send_buffer *leaving;
	u32 control_leaving;
	u32 control_packet[PACKET_HEADER_BYTES / 4];
	u32 controls[CONTROLS_WAITING]; /* streams with something to say, oldest first */
	u32 controls_first, controls_end;
	u32 refusal[PACKET_HEADER_BYTES / 4]; /* to a stream that there is not; word 0 is 0 for none */
	u32 events_first, events_end;
	u32 next_port; /* whose turn it is to send */
	u32 queued; /* tokens in TOKEN_QUEUED, of all ports */
	u32 routes[NODES];
	u32 lost_controls;
	u32 ticks;
	struct port ports[PORTS];
	struct translated translations[TRANSLATIONS];
	struct waiting_event events[EVENTS_WAITING];
	struct stream streams[STREAMS];
	u32 numbers[STREAMS]; /* plain: the last number given to a message of each stream that starts here */
	struct send_buffer send_buffers[2];
	struct receive_buffer receive_buffers[2];
};

extern struct ncp ncp;

/* main.c */
u32 engines(void);

/* commands.c */
u32 commands(void);

/* sdma.c */
u32 sdma(void);
void sdma_ended(struct send_buffer *buffer, u32 is_fault);
void set_state(struct port *port, struct send_token *token, u32 state);
void end_sends(struct port *port, const struct send_token *of, u32 sequence, u32 proof, u32 status);
void send_again(struct port *port, const struct send_token *of, u32 sequence, u32 offset, u32 wait_us);
u32 is_of_stream(const struct send_token *token, const struct send_token *of);

/* send.c */
u32 send(void);
void send_ended(void);
void say(struct stream *stream, u32 control, u32 status);
void refuse(const u32 *packet, u32 status);
void forget_packets(struct send_token *token);

/* recv.c */
void recv(u32 which);
void arm(u32 which);
struct stream *stream_of(u32 addresses, u32 priority);
void end_stream(const struct receive_buffer *buffer, u32 status);

/* rdma.c */
u32 rdma(void);
void dma_ended(void);
u32 event_room(struct port *port);
u32 events_are_full(void);
struct waiting_event *new_event(u32 port, u32 kind);

/* pages.c */
#define PAGE_MISS 0
#define PAGE_BAD 1
u32 translate(u32 port, u32 address);
void page_ended(u32 is_fault);
void forget_pages(u32 port);

/* timer.c */
void l_timer(void);
void start_timers(void);

/* service.inc: of each of the six */
struct service {
	u32 (*check)(const u32 *command);
	void (*send_chunk)(u32 port, struct send_token *token, struct send_buffer *buffer);
	void (*recv_data)(struct receive_buffer *buffer);
	void (*recv_done)(struct receive_buffer *buffer);
};
extern const struct service services[SERVICES];
/* The place of a service word in the table, or SERVICES. */
static inline u32 service_of(u32 word)
{
	u32 kind = word & 0xff, priority = word >> 8 & 0xff;
	return kind >= SERVICE_NORMAL && kind <= SERVICE_DATAGRAM && priority < PRIORITIES
		       ? (kind - SERVICE_NORMAL) * PRIORITIES + priority
		       : SERVICES;
}

static inline u32 port_number(struct port *port) { return (u32)(port - ncp.ports); }
static inline u32 now_us(void) { return *reg(RTC); }
/* Whether a time has come, on a clock that wraps. */
static inline u32 is_due(u32 at_us, u32 now) { return (int)(now - at_us) >= 0; }

void start_dma(u32 of, u32 bus, u32 local, u32 bytes, u32 control);
void copy_words(u32 *to, const volatile u32 *from, u32 count);

#endif
