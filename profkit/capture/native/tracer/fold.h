/* Tables in a file outlive their threads. The largest are kept, the others are folded into a sum, which bounds
 * programs with a thread per task. A new sum replaces the old one and the folded tables by one store of the epoch,
 * so readers count each call once whenever the process dies. The GIL is held. */
#pragma once

/* Fold tables of ended threads if there are enough. */
void fold_ended_tables(void);
