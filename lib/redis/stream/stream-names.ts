// The names that gateway and consumer share on Redis.

/** The stream of the queue. */
export const STREAM = 'ingest';

/** The consumer group that lands the stream's entries. */
export const GROUP = 'warehouse';
