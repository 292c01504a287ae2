// ingest-admin on the two queues of a dispatcher: the short form of partitions.long.ts.
import { TestRedis } from '../support/redis.ts';
import { describeAdmin } from './partitions.ts';

describeAdmin('the two queues of a dispatcher', async () => {
  const servers = [await TestRedis.start(), await TestRedis.start()];
  return {
    uris: servers.map(({ uri }) => uri),
    servers,
    names: servers.map(({ uri }) => `ingest of ${uri}`),
    masters: 2,
    streams: () => Promise.resolve(servers.map((server) => ['ingest', server] as const)),
  };
});
