/** The stream, or the prefix of several streams. */
export const STREAM = 'ingest';

export const GROUP = 'warehouse';

/** The hash tag keeps all keys of the queue in the same slot of a Redis Cluster as its stream. */
export const keyOf = (stream: string, kind: string): string => `{${stream}}:${kind}`;
