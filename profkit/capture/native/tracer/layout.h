/* The layout of the store's file: what a file says of it, for readers. */
#pragma once

struct store_header;

/* Say how large the structures of the file are, which readers go by. */
void layout_describe(struct store_header *header);
