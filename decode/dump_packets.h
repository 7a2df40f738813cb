/* --dump packets: the packets of each AUX buffer, one a line:
 *
 *     buffer INDEX cpu CPU tid TID
 *     STREAM-OFFSET  NAME [FIELDS]
 *
 * Offsets, ips and times are hex, TNT bits T and N, the oldest first. ips are whole (LastIP
 * applied). Bytes that are no packet, and bytes before the first PSB, are said and skipped. */
#ifndef DECODE_DUMP_PACKETS_H
#define DECODE_DUMP_PACKETS_H

#include <stdio.h>

#include "decode/sideband.h"

MUST_CHECK enum err dump_packets(const struct sideband *sideband, FILE *out, struct error *error);

#endif
