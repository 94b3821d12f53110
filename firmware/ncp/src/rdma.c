/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Into the host's memory: the data of what arrived, and events. One DMA at a time, oldest first; events last, so that
 * an event is never in the host before the data that it speaks of. */
#include "ncp.h"

void start_dma(u32 of, u32 bus, u32 local, u32 bytes, u32 control)
{
	ncp.dma_of = of;
	/* Whose page it is goes on when it is there. */
	if (of != DMA_OF_PAGE)
		ncp.fetch_is_next = of != DMA_OF_SDMA;
	ncp.dma_bytes = bytes;
	*reg(DMA_HOST) = bus;
	*reg(DMA_LOCAL) = local;
	*reg(DMA_COUNT) = bytes;
	*reg(DMA_CONTROL) = control | DMA_START;
}

/* How many events fit into the port's ring yet. */
u32 event_room(struct port *port)
{
	return PORT_EVENT_COUNT - (port->events_posted - port->events_consumed);
}

/* Whether nothing new may be begun that ends in an event. */
u32 events_are_full(void)
{
	return ncp.events_end - ncp.events_first > EVENTS_WAITING - EVENTS_SPARE;
}

/* Its place in the queue, 0 where there is none: then it is asked for again, or the host misses it and asks. */
struct waiting_event *new_event(u32 port, u32 kind)
{
	if (ncp.events_end - ncp.events_first == EVENTS_WAITING || !event_room(&ncp.ports[port]))
		return 0;
	struct waiting_event *event = &ncp.events[ncp.events_end++ % EVENTS_WAITING];
	event->port = port;
	event->stream = 0;
	for (u32 i = 1; i < EVENT_NUMBER; i++)
		event->words[i] = 0;
	event->words[0] = kind;
	event->words[EVENT_NUMBER] = ++ncp.ports[port].events_posted;
	return event;
}

static __attribute__((noinline)) u32 post(void)
{
	if (ncp.events_first == ncp.events_end)
		return 0;
	struct waiting_event *event = &ncp.events[ncp.events_first % EVENTS_WAITING];
	u32 place = (event->words[EVENT_NUMBER] - 1) % PORT_EVENT_COUNT;
	u32 bus = HOST_PORTS + event->port * HOST_PORT_BYTES + PORT_EVENTS + place * 64;
	start_dma(DMA_OF_EVENT, bus, (u32)event->words, 64, DMA_TO_HOST);
	return 1;
}

#ifdef NCP_TOLERANT
/* The event in the host's memory is what makes a message delivered, so only now may the sender forget it. Where the event of the
 * next message follows at once, one acknowledgement does for two: each takes the sender as long as half a kilobyte on the link. */
static void acknowledge(const struct waiting_event *event)
{
	const struct waiting_event *next = &ncp.events[ncp.events_first % EVENTS_WAITING];
	/* The number says nothing of another generation that has begun meanwhile. */
	if (event->words[7] != event->stream->generation)
		return;
	event->stream->arrived = event->arrived;
	if (event->arrived & 1 && ncp.events_first != ncp.events_end && next->stream == event->stream)
		return;
	say(event->stream, CONTROL_ACK, 0);
}
#endif

static void event_ended(void)
{
	struct waiting_event *event = &ncp.events[ncp.events_first++ % EVENTS_WAITING];
#ifdef NCP_TOLERANT
	if (event->stream && !ncp.ports[event->port].verifies)
		acknowledge(event);
#endif
	*reg(HOST_INTERRUPT) = HOST_INTERRUPT_EVENTS | event->port << 8;
}

/* The next piece of a packet's data: up to the end of a page. */
static __attribute__((noinline)) u32 write_on(struct receive_buffer *buffer)
{
	u32 bytes = buffer->packet[HEADER_BYTES] - buffer->written;
	u32 at = buffer->to + buffer->written;
	u32 in_page = PAGE_BYTES - at % PAGE_BYTES;
	u32 bus = translate(buffer->port, at);
	if (bus == PAGE_MISS)
		return 1;
	if (bus == PAGE_BAD) {
		end_stream(buffer, NACK_REFUSED);
		arm((u32)(buffer - ncp.receive_buffers));
		return 1;
	}
	ncp.dma_receive = buffer;
	start_dma(DMA_OF_RDMA, bus, (u32)buffer->packet + PACKET_HEADER_BYTES + buffer->written,
		  bytes < in_page ? bytes : in_page, DMA_TO_HOST);
	return 1;
}

static void packet_is_written(struct receive_buffer *buffer)
{
	services[service_of(buffer->packet[HEADER_SERVICE])].recv_done(buffer);
	arm((u32)(buffer - ncp.receive_buffers));
}

static void rdma_ended(struct receive_buffer *buffer, u32 is_fault)
{
	if (is_fault) {
		end_stream(buffer, NACK_REFUSED);
		arm((u32)(buffer - ncp.receive_buffers));
		return;
	}
	buffer->written += ncp.dma_bytes;
	if (buffer->written >= buffer->packet[HEADER_BYTES])
		packet_is_written(buffer);
}

u32 rdma(void)
{
	if (ncp.dma_of != DMA_IDLE)
		return 0;
	struct receive_buffer *first = 0;
	for (u32 i = 0; i < 2; i++) {
		struct receive_buffer *buffer = &ncp.receive_buffers[i];
		if (buffer->state == ARRIVED_WRITING && (!first || (int)(buffer->order - first->order) < 0))
			first = buffer;
	}
	if (!first)
		return post();
	if (first->packet[HEADER_BYTES])
		return write_on(first);
	/* A message without data waits for its turn all the same: the data of the one before it may only just be written. */
	packet_is_written(first);
	return 1;
}

void dma_ended(void)
{
	u32 of = ncp.dma_of, is_fault = *reg(DMA_STATUS) & DMA_FAULT;
	ncp.dma_of = DMA_IDLE;
	if (of == DMA_OF_SDMA)
		sdma_ended(ncp.dma_send, is_fault);
	else if (of == DMA_OF_RDMA)
		rdma_ended(ncp.dma_receive, is_fault);
	else if (of == DMA_OF_EVENT)
		event_ended();
	else if (of == DMA_OF_PAGE)
		page_ended(is_fault);
}
