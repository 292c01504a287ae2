// ingest-consumer: lands the queue's events in the warehouse. This file ties the parts together, and is the
// only one that decides about exit codes.
import { readFileSync } from 'node:fs';
import { Consumer } from '../lib/consumer/consumer.ts';
import { readConsumerConfig, type ConsumerConfig } from '../lib/consumer/config.ts';
import { createProcessEndpoints } from '../lib/consumer/process-endpoints.ts';
import { QUARANTINE_REASONS } from '../lib/consumer/quarantine.ts';
import { Watch } from '../lib/consumer/watch.ts';
import { REPLICA_LEASE_MS } from '../lib/ingest/queue.ts';
import { StreamReader } from '../lib/redis/stream-reader.ts';
import { pause } from '../lib/runtime/backoff.ts';
import { errno, maskedUri, processEnvironment, shown } from '../lib/runtime/env.ts';
import { createLog, type Log } from '../lib/runtime/log.ts';
import { consumerMetrics, type ConsumerMetrics } from '../lib/runtime/metrics.ts';
import { onStopSignals } from '../lib/runtime/shutdown.ts';
import { openWarehouse } from './warehouse-adapter.ts';

const EXIT = { clean: 0, failure: 1, configuration: 2, bind: 3, queue: 4, replicas: 5 } as const;
const QUEUE_START_TIMEOUT_MS = 5_000;
/** While its place is taken a replica asks again, for a little longer than a dead one is counted. */
const REGISTER_TIMEOUT_MS = REPLICA_LEASE_MS + 1_500;
const REGISTER_INTERVAL_MS = 250;

const HELP = `ingest-consumer: lands the events of the queue in the warehouse, one row for each id.

Usage: ingest-consumer [--check | --help | --version]
  --check    read the configuration, say what is wrong, start nothing; exit 0 or 2

Configuration (environment; *_URI keys also as *_URI_FILE, the path of a file that holds the URI):
  INGEST_QUEUE_URI               required   redis:// or rediss://
  INGEST_WAREHOUSE_URI           required   sqlite:<path> or postgres://
  INGEST_CONSUMER_ADDR           127.0.0.1:9464   /health/live, /health/ready, /metrics (plain HTTP)
  INGEST_CONSUMER_BATCH_MAX      500        entries in one read and one transaction
  INGEST_CONSUMER_REPLICAS_MAX   6          one more replica refuses to start
  INGEST_LOG_LEVEL               info       debug, info, warn, error
  INGEST_DRAIN_TIMEOUT_MS        10000      how long a stop may take

Signals: SIGTERM and SIGINT finish the batch in hand; the second one ends at once.
Exit codes: 0 clean stop, 1 a fault of the program, 2 configuration, 3 the address cannot be bound,
            4 the queue is unavailable at start, 5 INGEST_CONSUMER_REPLICAS_MAX replicas run already.
`;

async function main(): Promise<void> {
  const [option, ...others] = process.argv.slice(2);
  if (option === '--help') return print(HELP);
  if (option === '--version') return print(`ingest-consumer ${version()}\n`);
  if ((option !== undefined && option !== '--check') || others.length > 0) {
    complain(`ingest-consumer: unknown option ${[option, ...others].join(' ')}; see --help`);
    process.exit(EXIT.configuration);
  }
  const { config, problems, warnings } = readConsumerConfig(processEnvironment());
  for (const warning of warnings) complain(`ingest-consumer: warning: ${warning}`);
  if (config === undefined) {
    complain(`ingest-consumer: the configuration has ${problems.length} problem(s):`);
    for (const problem of problems) complain(`  ${problem}`);
    process.exit(EXIT.configuration);
  }
  if (option === '--check') return print('ingest-consumer: the configuration is good\n');
  await start(config);
}

async function start(config: ConsumerConfig): Promise<void> {
  const log = createLog('ingest-consumer', config.logLevel);
  const fatal = (cause: unknown): never => {
    log.fatal({ err: cause }, 'an uncaught error: this is a bug');
    process.exit(EXIT.failure);
  };
  process.on('uncaughtException', fatal);
  process.on('unhandledRejection', fatal);

  const reader = new StreamReader({ uri: config.queueUri, log });
  const warehouse = openWarehouse(config.warehouseUri, 'consumer');
  const metrics: ConsumerMetrics = consumerMetrics(QUARANTINE_REASONS, {
    lagEvents: () => watch.lagEvents,
    oldestUnlandedSeconds: () => watch.oldestUnlandedSeconds,
  });
  const consumer = new Consumer({ reader, warehouse, metrics, log, batchMax: config.batchMax });
  const watch: Watch = new Watch({ reader, warehouse, log, prepared: () => consumer.prepared });
  const endpoints = createProcessEndpoints({
    draining: () => consumer.stopping,
    unready: () => consumer.trouble ?? watch.warehouseTrouble,
    metrics: () => metrics.registry.metrics(),
    metricsType: metrics.registry.contentType,
  });
  let running: Promise<void> = Promise.resolve();
  const starting = new AbortController();
  onStopSignals({
    deadlineMs: config.drainTimeoutMs,
    exit: (code) => process.exit(code),
    onFailure: (cause) => log.fatal({ err: cause }, 'the stop failed'),
    onDeadline: () => log.warn('the drain time-out ended the stop; what was in hand is claimed by another replica'),
    onSecondSignal: (signal) => log.warn({ signal }, 'second signal: ending at once'),
    stop: async (signal) => {
      log.info({ signal }, 'stopping: the batch in hand is finished');
      starting.abort();
      consumer.stop();
      await running;
      await watch.close();
      await reader.close();
      await warehouse.close();
      await endpoints.close();
      log.info('stopped');
    },
  });

  if (!(await reader.open(QUEUE_START_TIMEOUT_MS))) {
    if (starting.signal.aborted) return;
    const uri = shown('INGEST_QUEUE_URI', config.queueUri);
    log.fatal(`INGEST_QUEUE_URI=${uri}: the queue is not available (${reader.lastError}); check that the server runs and that the URI is right`);
    process.exit(EXIT.queue);
  }
  if (!(await registered(reader, config.replicasMax, starting.signal, log))) {
    if (starting.signal.aborted) return;
    log.fatal(
      `INGEST_CONSUMER_REPLICAS_MAX=${config.replicasMax}: as many consumer replicas run already; stop one, or raise this key for every replica`,
    );
    await reader.close();
    process.exit(EXIT.replicas);
  }
  watch.start();
  try {
    const { address, port } = await endpoints.listen(config.address);
    log.info({ queue: maskedUri(config.queueUri), replica: reader.name }, `listening on http://${address.includes(':') ? `[${address}]` : address}:${port}`);
  } catch (cause) {
    const { host, port } = config.address;
    log.fatal(`INGEST_CONSUMER_ADDR=${host}:${port}: cannot be bound (${errno(cause)}); check the address and who owns the port`);
    process.exit(EXIT.bind);
  }
  if (!starting.signal.aborted) running = consumer.run();
  running.catch(fatal);
}

/** True once this process has a place among the replicas. The place of one that has just died is free after its lease. */
async function registered(reader: StreamReader, replicasMax: number, signal: AbortSignal, log: Log): Promise<boolean> {
  const deadline = performance.now() + REGISTER_TIMEOUT_MS;
  while (performance.now() < deadline && !signal.aborted) {
    try {
      if (await reader.register(replicasMax)) return true;
    } catch (cause) {
      log.warn({ err: cause }, 'the queue does not answer');
    }
    await pause(REGISTER_INTERVAL_MS, signal);
  }
  return false;
}

function version(): string {
  const file = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(file) as { version: string }).version;
}

const print = (text: string): void => void process.stdout.write(text);
const complain = (line: string): void => void process.stderr.write(`${line}\n`);

await main();
