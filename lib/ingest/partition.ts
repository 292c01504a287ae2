// The partition of an event: the hash of its id, modulo the number of partitions.
//
// The hash is the CRC-32 of zlib, gzip and PNG (polynomial 0xEDB88320, reflected) over the id's UTF-8 bytes, as an
// unsigned integer. It is part of the stored format: all writers to a queue must use it, or a retry misses the index
// that knows its id. deploy/scale.md has test vectors for programs in other languages.
//
// Fact: ids are often counters, and a hash that behaves like chance misses an even share by 3 % (100,000 ids, 16
// partitions) once in five times. Choice: CRC-32, which spreads counters more evenly, and random ids like chance. It is
// independent of the CRC-16 of Redis Cluster.
import { crc32 } from 'node:zlib';

/** An integer from 0 to 2 ^ 32 - 1. */
export const partitionHash = (id: string): number => crc32(id);

/** From 0 to `partitions` - 1. */
export const partitionOf = (id: string, partitions: number): number => partitionHash(id) % partitions;
