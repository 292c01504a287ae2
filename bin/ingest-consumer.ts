// ingest-consumer: lands the queue's events in the warehouse. This file ties the parts together, and is the
// only one that decides about exit codes.
import { Consumer } from '../lib/consumer/consumer.ts';
import { readConsumerConfig, type ConsumerConfig } from '../lib/consumer/config.ts';
import { createProcessEndpoints, type ProcessEndpoints } from '../lib/consumer/process-endpoints.ts';
import { QUARANTINE_REASONS } from '../lib/consumer/quarantine.ts';
import { Watch } from '../lib/consumer/watch.ts';
import { REPLICA_LEASE_MS } from '../lib/ingest/queue.ts';
import { QueueRefusal } from '../lib/redis/errors.ts';
import { StreamReader } from '../lib/redis/stream-reader.ts';
import { pause } from '../lib/process/backoff.ts';
import { addressText, errno } from '../lib/process/env.ts';
import { maskedUri } from '../lib/process/masked-uri.ts';
import { settingsHelp } from '../lib/process/settings-text.ts';
import { createLog, type Log } from '../lib/process/log.ts';
import { consumerMetrics } from '../lib/consumer/metrics.ts';
import { EXIT, StartFailure } from '../lib/process/program.ts';
import { onStopSignals } from '../lib/process/shutdown.ts';
import { startDaemon } from './start.ts';
import { openWarehouse } from './warehouse-adapter.ts';

const NAME = 'ingest-consumer';
const QUEUE_START_MS = 5_000;
/** While its place is taken a replica asks again, for a little longer than a dead one is counted. */
const REGISTER_TIMEOUT_MS = REPLICA_LEASE_MS + 1_500;
const REGISTER_INTERVAL_MS = 250;

const HELP = `${NAME}: lands the events of the queue in the warehouse, one row for each id.

  ${NAME}            start, with the configuration in the environment
  ${NAME} --check    look at the configuration; start nothing; exit 0 or 2
  ${NAME} --version  print the version
  ${NAME} --help     print this

${settingsHelp('consumer')}
Exit codes: 0 clean stop, 1 bug, 2 configuration, 3 address cannot be bound, 4 queue not there at start,
5 as many replicas run as INGEST_CONSUMER_REPLICAS_MAX allows.
`;

await startDaemon({ name: NAME, help: HELP, read: readConsumerConfig, check: () => Promise.resolve(), run });

async function run(config: ConsumerConfig, warnings: readonly string[]): Promise<void> {
  const log = createLog(NAME, config.logLevel);
  process.on('uncaughtException', (cause) => {
    log.fatal({ err: cause }, 'uncaught error');
    process.exit(EXIT.fatal);
  });
  for (const warning of warnings) log.warn(warning);

  const metrics = consumerMetrics(QUARANTINE_REASONS);
  const { queueUri: uri, unlandedMs } = config;
  const reader = new StreamReader({ uri, log, unlandedMs, onLost: (events) => metrics.lost.add(events) });
  const warehouse = openWarehouse(config.warehouseUri, 'consumer');
  const consumer = new Consumer({ reader, warehouse, metrics, log, batchMax: config.batchMax });
  const watch = new Watch({ reader, metrics, warehouse, log, unlandedMs, prepared: () => consumer.prepared });
  const endpoints = createProcessEndpoints({
    draining: () => consumer.stopping,
    unready: () => consumer.trouble ?? watch.warehouseTrouble,
    metrics: () => metrics.registry.metrics(),
    metricsType: metrics.registry.contentType,
  });

  const stopped = new AbortController();
  let running = Promise.resolve();
  onStopSignals({
    deadlineMs: config.drainTimeoutMs,
    exit: (code) => process.exit(code),
    onSecondSignal: (signal) => log.warn({ signal }, 'second signal: ending at once'),
    onDeadline: () => log.warn('the drain time-out is over: what was in hand is left to another replica'),
    onFailure: (cause) => log.fatal({ err: cause }, 'stopping failed'),
    stop: async (signal) => {
      log.info({ signal }, 'stopping');
      stopped.abort();
      consumer.stop();
      await running;
      await watch.close();
      await reader.close();
      await warehouse.close();
      await endpoints.close();
      log.info('stopped');
    },
  });

  await startQueue(config, reader, stopped.signal, log);
  if (stopped.signal.aborted) return;
  const address = await bind(config, endpoints).catch(async (cause: unknown) => {
    // Its place among the replicas is free at once.
    await reader.close();
    throw cause;
  });
  watch.start();
  running = consumer.run();
  log.info({ replica: reader.name }, `listening on http://${address}`);
  // A rejection here is a bug; it ends the process as any uncaught error does.
  await running;
}

/** Connects and takes a place among the replicas. Throws a StartFailure when either cannot be had in time. */
async function startQueue(config: ConsumerConfig, reader: StreamReader, stopped: AbortSignal, log: Log): Promise<void> {
  const key = `INGEST_QUEUE_URI=${maskedUri(config.queueUri)}`;
  const opened = await reader.open(QUEUE_START_MS).catch((cause: unknown) => {
    if (cause instanceof QueueRefusal) throw new StartFailure(EXIT.queue, `${key}: ${cause.message}`);
    throw cause;
  });
  if (stopped.aborted) return;
  if (!opened && reader.waiting) {
    log.error(
      { reason: reader.lastError },
      'the queue is there and takes no commands; starting, and waiting until it does',
    );
    reader.registerLater(config.replicasMax);
    return;
  }
  if (!opened) {
    throw new StartFailure(
      EXIT.queue,
      `${key}: the queue does not answer (${reader.lastError}); check that the server runs and is reachable`,
    );
  }
  const place = await placeAmongReplicas(reader, config.replicasMax, stopped, log);
  if (place === 'taken') {
    throw new StartFailure(
      EXIT.replicas,
      `INGEST_CONSUMER_REPLICAS_MAX=${config.replicasMax}: as many replicas run already; stop one, or raise this key for every replica`,
    );
  }
  if (place === 'unknown') reader.registerLater(config.replicasMax);
}

async function bind(config: ConsumerConfig, endpoints: ProcessEndpoints): Promise<string> {
  try {
    const { address, port } = await endpoints.listen(config.address);
    return addressText({ host: address, port });
  } catch (cause) {
    throw new StartFailure(
      EXIT.bind,
      `INGEST_CONSUMER_ADDR=${addressText(config.address)}: this address cannot be bound (${errno(cause)}); check the address, and who has the port`,
    );
  }
}

/**
 * Asks for a place among the replicas; the place of one that has just died is free after its lease. `unknown`: the queue
 * refused to say, or a stop was asked for.
 */
async function placeAmongReplicas(
  reader: StreamReader,
  replicasMax: number,
  signal: AbortSignal,
  log: Log,
): Promise<'mine' | 'taken' | 'unknown'> {
  const deadline = performance.now() + REGISTER_TIMEOUT_MS;
  let place: 'taken' | 'unknown' = 'unknown';
  while (performance.now() < deadline && !signal.aborted) {
    try {
      if (await reader.register(replicasMax)) return 'mine';
      place = 'taken';
    } catch (cause) {
      place = 'unknown';
      log.warn({ err: cause }, 'the queue does not take commands');
    }
    await pause(REGISTER_INTERVAL_MS, signal);
  }
  return signal.aborted ? 'unknown' : place;
}
