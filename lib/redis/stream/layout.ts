/** The stream, or the prefix of several streams. */
export const STREAM = 'ingest';

/** The streams of two queues (RFC 014). The first one has the events with an even hash. */
export const TWO_STREAMS: readonly string[] = [`${STREAM}-a`, `${STREAM}-b`];

export const GROUP = 'warehouse';

/** The hash tag keeps all keys of the queue in the same slot of a Redis Cluster as its stream. */
export const keyOf = (stream: string, kind: string): string => `{${stream}}:${kind}`;
