// ingest-consumer: lands the queue's events in the warehouse. This file ties the parts together, and is the
// only one that decides about exit codes.
import './early-signals.ts';
import { Consumer } from '../lib/consumer/consumer.ts';
import { readConsumerConfig, type ConsumerConfig } from '../lib/consumer/config.ts';
import { createProcessEndpoints, type ProcessState } from '../lib/http/process-endpoints.ts';
import { LandingSpans } from '../lib/consumer/landing-spans.ts';
import { QUARANTINE_REASONS } from '../lib/consumer/quarantine.ts';
import { Pruner } from '../lib/consumer/pruner.ts';
import type { WatchedSchemas } from '../lib/consumer/schemas.ts';
import { Watch } from '../lib/consumer/watch.ts';
import { TablesDiffer } from '../lib/ingest/warehouse.ts';
import type { QueueLook } from '../lib/ingest/queue.ts';
import { GROUP, STREAM } from '../lib/redis/stream/layout.ts';
import { readingQueue } from '../lib/redis/read/open-reader.ts';
import { joinReplicas } from '../lib/redis/read/join-replicas.ts';
import { inspectQueue } from '../lib/redis/stream/inspect-queue.ts';
import { exposition, prefersOpenMetrics } from '../lib/telemetry/exposition.ts';
import { startTracing } from '../lib/telemetry/tracing.ts';
import { settingsHelp } from '../lib/process/settings-text.ts';
import type { Log } from '../lib/process/log.ts';
import { awayParts, consumerMetrics, showQueue } from '../lib/consumer/metrics.ts';
import { EXIT, StartFailure, version } from '../lib/process/program.ts';
import { watchCredentials } from '../lib/process/credentials.ts';
import { processEnvironment } from '../lib/process/env.ts';
import { bound, type OnStop } from '../lib/process/daemon.ts';
import { startDaemon } from './start.ts';
import { inspectWarehouse, openWarehouse } from './warehouse-adapter.ts';
import { quietLog } from './quiet-log.ts';
import { SYSTEM } from './system.ts';

const NAME = 'ingest-consumer';

const HELP = `${NAME}: lands the events of the queue in the warehouse, one row for each id.

  ${NAME}                  start, with the configuration in the environment
  ${NAME} --check          look at the configuration; start nothing; exit 0 or 2
  ${NAME} --check=connect  also connect to the queue (exit 4) and the warehouse (exit 5), and say what is there
  ${NAME} --version        print the version
  ${NAME} --help           print this

${settingsHelp('consumer')}
Exit codes: 0 clean stop, 1 bug, 2 configuration, 3 address cannot be bound, 4 queue not there at start,
5 as many replicas run as INGEST_CONSUMER_REPLICAS_MAX allows, or (--check=connect) the warehouse cannot be used.
`;

await startDaemon({
  name: NAME,
  help: HELP,
  read: readConsumerConfig,
  check: async (config) => (await schemasOf(config, quietLog))?.stop(),
  connect,
  run,
});

/** The schemas of event types; undefined where none are configured. Throws a StartFailure. */
async function schemasOf({ schemasDir }: ConsumerConfig, log: Log): Promise<WatchedSchemas | undefined> {
  if (schemasDir === undefined) return undefined;
  // Loaded here: only who has schemas needs the libraries.
  const { SchemasError, WatchedSchemas } = await import('../lib/consumer/schemas.ts');
  return WatchedSchemas.open(schemasDir, log, SYSTEM.clock).catch((cause: unknown) => {
    if (!(cause instanceof SchemasError)) throw cause;
    const message = `INGEST_SCHEMAS_DIR=${JSON.stringify(schemasDir)}: ${cause.message}`;
    throw new StartFailure(EXIT.configuration, message);
  });
}

async function connect(config: ConsumerConfig, found: (line: string) => void): Promise<void> {
  const { queuePartitions: partitions } = config;
  for (const uri of config.queueUri.split(' '))
    found(await inspectQueue({ uri, partitions, program: 'consumer' }, SYSTEM));
  found(await inspectWarehouse(config.warehouseUri, 'consumer', config.warehousePartitions));
}

async function run(config: ConsumerConfig, log: Log, onStop: OnStop): Promise<void> {
  const schemas = await schemasOf(config, log);
  const metrics = consumerMetrics(QUARANTINE_REASONS, SYSTEM.clock);
  const { batchMax, queuePartitions: partitions, retentionMs, unlandedMs } = config;
  const onLost = (events: number): void => metrics.lost.add(events);
  const onLook = (look: QueueLook, partition: string): void => metrics.queue.looked(partition, look);
  const uris = config.queueUri.split(' ');
  const credentials = await watchCredentials(config, processEnvironment(), readConsumerConfig, SYSTEM.clock, log);
  process.on('SIGHUP', () => void credentials.reload());
  const how = { ...SYSTEM, credentials: credentials.queue, log };
  const reader = readingQueue({ ...how, uris, partitions, unlandedMs, onLost, onLook });
  const tables = { credentials: credentials.warehouse, partitions: config.warehousePartitions };
  const warehouse = openWarehouse(config.warehouseUri, 'consumer', tables);
  const tracing = config.exportsSpans ? await startTracing(NAME, version(), log, SYSTEM.clock) : undefined;
  const spans = tracing && new LandingSpans(tracing, { system: 'redis', destination: STREAM, group: GROUP });
  const consumer = new Consumer({ ...SYSTEM, reader, warehouse, metrics, log, batchMax, spans, schemas });
  const prepared = (): boolean => consumer.prepared;
  const watch = new Watch({ clock: SYSTEM.clock, queue: metrics.queue, warehouse, log, unlandedMs, prepared });
  const trouble = (): string | undefined => consumer.trouble ?? watch.warehouseTrouble;
  const known = (): boolean => trouble() === undefined && awayParts(reader).length === 0;
  const oldestSeconds = (): number | undefined => (known() ? metrics.queue.lag.oldestSeconds : undefined);
  const pruner = new Pruner({ ...SYSTEM, warehouse, retentionMs, oldestSeconds, pruned: metrics.pruned, log });
  showQueue(metrics, consumer, reader);
  metrics.ready.read(() => (consumer.stopping || trouble() !== undefined ? 0 : 1));
  metrics.warehouseAvailable.read(() => (consumer.warehouseAnswers && watch.warehouseTrouble === undefined ? 1 : 0));
  const state: ProcessState = {
    draining: () => consumer.stopping,
    unavailable: () => awayParts(reader),
    unready: trouble,
    metrics: (accept) => exposition(metrics.registry, prefersOpenMetrics(accept)),
  };
  const endpoints = createProcessEndpoints(state, SYSTEM);

  const stopped = new AbortController();
  let running = Promise.resolve();
  onStop({
    deadlineMs: config.drainTimeoutMs,
    cutOff: 'what was in hand is left to another replica',
    stop: async () => {
      stopped.abort();
      credentials.stop();
      consumer.stop();
      await running;
      await watch.close();
      await reader.close();
      await warehouse.close();
      await endpoints.close();
      await tracing?.close();
    },
  });

  await joinReplicas(reader, config, SYSTEM.clock, stopped.signal, log);
  if (stopped.signal.aborted) return;
  const address = await bound('INGEST_CONSUMER_ADDR', config.address, endpoints.listen).catch(
    async (cause: unknown) => {
      // Its place among the replicas is free at once.
      await reader.close();
      throw cause;
    },
  );
  watch.start();
  running = Promise.all([consumer.run(), pruner.run(stopped.signal)]).then(() => undefined);
  log.info({ replica: reader.name }, `listening on http://${address}`);
  await running.catch((cause: unknown) => endFor(cause, reader));
}

/** Rejects with a StartFailure, or with what is a bug; that ends the process as any uncaught error does. */
async function endFor(cause: unknown, reader: ReturnType<typeof readingQueue>): Promise<never> {
  if (!(cause instanceof TablesDiffer)) throw cause;
  // Its place among the replicas is free at once.
  await reader.close();
  throw new StartFailure(EXIT.configuration, cause.message);
}
