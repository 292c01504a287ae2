// The names of the queue's keys and of its group, which all programs share.

/** The stream of a queue that has one; of several partitions their common name. */
export const STREAM = 'ingest';

/** The consumer group that lands the stream's entries. */
export const GROUP = 'warehouse';

/** Another key of the queue, in the same slot of a Redis Cluster. */
export const keyOf = (stream: string, kind: 'erased' | 'ids' | 'queue' | 'replicas' | 'waited'): string =>
  `{${stream}}:${kind}`;
