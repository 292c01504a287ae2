// Names of the queue's keys and group, which all programs share.

/** The stream, or the prefix of several streams. */
export const STREAM = 'ingest';

export const GROUP = 'warehouse';

/** Another key of the queue, in the same slot of a Redis Cluster. */
export const keyOf = (stream: string, kind: 'erased' | 'ids' | 'queue' | 'replicas' | 'waited'): string =>
  `{${stream}}:${kind}`;
