/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The event loop, and how the program starts. */
#include "ncp.h"

struct ncp ncp;

/* The hardware starts at address 0 with all registers and the whole SRAM below the image zero. */
__attribute__((naked, section(".start"), used)) void start(void)
{
	__asm__ volatile("la sp, stack_end\n"
			 "call run\n"
			 "1: j 1b\n");
}

void copy_words(u32 *to, const volatile u32 *from, u32 count)
{
	for (u32 i = 0; i < count; i++)
		to[i] = from[i];
}

/* The compiler may call it for whole structures. */
void *memset(void *at, int value, u32 count);
void *memset(void *at, int value, u32 count)
{
	volatile u8 *bytes = at;
	while (count--)
		*bytes++ = (u8)value;
	return at;
}
void *memcpy(void *to, const void *from, u32 count);
void *memcpy(void *to, const void *from, u32 count)
{
	volatile u8 *bytes = to;
	const u8 *source = from;
	while (count--)
		*bytes++ = *source++;
	return to;
}

#define ENGINES (ISR_DMA | ISR_SENT)
#define ENGINES_ROUNDS_MAX 4

/* Gives the engines what waits for them. The DMA takes turns between what goes to the host and what comes from there, so that
 * neither waits for more than one of the other. */
static u32 feed_engines(void)
{
	u32 did = ncp.leaving || ncp.control_leaving ? 0 : send();
	u32 fetch_is_next = ncp.fetch_is_next;
	if (!fetch_is_next && ncp.dma_of == DMA_IDLE)
		did |= rdma();
	/* While the DMA is busy, the next packet may be begun. */
	if (ncp.queued || ncp.is_fetching)
		did |= sdma();
	if (fetch_is_next && ncp.dma_of == DMA_IDLE)
		did |= rdma();
	return did;
}

/* An engine that has become free goes on at once, whatever else there is to do: asked after each piece of other work, of which
 * an acknowledgement takes as long as a packet of half a kilobyte on the link. */
u32 engines(void)
{
	u32 did = 0;
	for (u32 i = 0; i < ENGINES_ROUNDS_MAX; i++) {
		u32 ended = *reg(ISR) & ENGINES;
		if (!ended)
			break;
		*reg(ISR) = ended;
		if (ended & ISR_DMA)
			dma_ended();
		if (ended & ISR_SENT)
			send_ended();
		feed_engines();
		did = 1;
	}
	return did;
}

__attribute__((used)) void run(void)
{
	ncp.node = *reg(NODE);
	for (u32 node = 0; node < NODES; node++)
		ncp.routes[node] = node + 1;
	/* Until the host has said which ports are open, none is known to be shut. */
	for (u32 port = 0; port < PORTS; port++)
		ncp.ports[port].state = PORT_BACK_SOON;
	arm(0);
	arm(1);
	start_timers();
	for (;;) {
		u32 isr = *reg(ISR);
		/* Cleared before it is looked at what they announce, so that nothing that comes meanwhile is missed. */
		*reg(ISR) = isr & ~(ISR_IT1 | ENGINES);
		engines();
		/* In the order in which they came; both may be full. */
		u32 later = (int)(ncp.receive_buffers[0].order - ncp.receive_buffers[1].order) > 0;
		if (isr & (later ? ISR_RECEIVED1 : ISR_RECEIVED0)) {
			recv(later);
			engines();
		}
		if (isr & (later ? ISR_RECEIVED0 : ISR_RECEIVED1)) {
			recv(!later);
			engines();
		}
		if (isr & ISR_IT0)
			l_timer();
		u32 did = commands();
		did |= engines() || feed_engines();
		if (!did)
			*reg(WAIT) = ~(u32)ISR_IT1;
	}
}
