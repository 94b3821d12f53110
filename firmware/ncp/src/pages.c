/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From port addresses to bus addresses, by the port's page table in the host and a cache of it here. */
#include "ncp.h"

static u32 key_of(u32 port, u32 page) { return port * PORT_PAGES + page + 1; }

/* The bus address of a port address; PAGE_MISS while the entry is fetched (ask again), PAGE_BAD where there is none. */
u32 translate(u32 port, u32 address)
{
	u32 page = address / PAGE_BYTES;
	if (page >= PORT_PAGES)
		return PAGE_BAD;
	u32 key = key_of(port, page);
	struct translated *found = &ncp.translations[(page ^ port * 8) % TRANSLATIONS];
	if (found->key == key)
		return found->bus ? found->bus * PAGE_BYTES + address % PAGE_BYTES : PAGE_BAD;
	if (ncp.dma_of == DMA_IDLE) {
		ncp.dma_page = found;
		ncp.page_key = key;
		found->key = 0;
		u32 entry = HOST_PORTS + port * HOST_PORT_BYTES + PORT_PAGE_TABLE + page * 4;
		start_dma(DMA_OF_PAGE, entry, (u32)&ncp.page_entry, 4, 0);
	}
	return PAGE_MISS;
}

void page_ended(u32 is_fault)
{
	/* A page that the host does not have is kept as such until the port forgets its pages. */
	ncp.dma_page->bus = is_fault ? 0 : ncp.page_entry;
	ncp.dma_page->key = ncp.page_key;
}

void forget_pages(u32 port)
{
	for (u32 i = 0; i < TRANSLATIONS; i++)
		if (ncp.translations[i].key && (ncp.translations[i].key - 1) / PORT_PAGES == port)
			ncp.translations[i].key = 0;
}
