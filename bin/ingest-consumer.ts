// ingest-consumer: lands the queue's events in the warehouse. This file wires up the program.
import './early-signals.ts';
import { readConsumerConfig, type ConsumerConfig } from '../lib/consumer/config.ts';
import { problem } from '../lib/ingest/errors.ts';
import { createProcessEndpoints } from '../lib/http/process-endpoints.ts';
import { landingSpans } from '../lib/consumer/landing-spans.ts';
import { checkSchemas, watchedSchemas } from '../lib/consumer/schemas.ts';
import { TablesDiffer } from '../lib/ingest/warehouse.ts';
import type { QueueReport } from '../lib/ingest/queue.ts';
import { GROUP, STREAM } from '../lib/redis/stream/layout.ts';
import { joinReplicas, streamReaders } from '../lib/redis/read/open-readers.ts';
import { inspectQueue } from '../lib/redis/stream/inspect-queue.ts';
import { statusPages } from '../lib/telemetry/status-page.ts';
import { startTracing } from '../lib/telemetry/tracing.ts';
import type { Log } from '../lib/process/log.ts';
import { Replica } from '../lib/consumer/replica.ts';
import { consumerMetrics } from '../lib/consumer/metrics.ts';
import { EXIT, StartFailure } from '../lib/process/program.ts';
import { bound, startDaemon, type OnStop } from './daemon.ts';
import { inspectWarehouse, openWarehouse } from './warehouse-adapter.ts';
import { SYSTEM } from '../lib/process/clock.ts';

await startDaemon({
  program: 'consumer',
  summary: 'lands the events of the queue in the warehouse, one row for each id.',
  exits:
    '4 queue unavailable at start,\n5 the maximum of INGEST_CONSUMER_REPLICAS_MAX consumers is running, ' +
    'or (--check=connect) the warehouse cannot be used',
  read: readConsumerConfig,
  check: ({ schemasDir }) => checkSchemas(schemasDir, SYSTEM.clock),
  connect,
  run,
});

async function connect(config: ConsumerConfig, report: (line: string) => void): Promise<void> {
  const { queuePartitions: partitions } = config;
  report(await inspectQueue({ uri: config.queueUri, partitions, program: 'consumer' }, SYSTEM));
  report(await inspectWarehouse(config.warehouseUri, 'consumer'));
}

async function run(config: ConsumerConfig, log: Log, onStop: OnStop): Promise<void> {
  const schemas = await watchedSchemas(config.schemasDir, SYSTEM.clock);
  const metrics = consumerMetrics(SYSTEM.clock);
  schemas?.watch({ log, onOutcome: metrics.reloads.of('schemas') });
  metrics.schemaTypesUnusable.read(() => schemas?.unusable ?? 0);
  const { batchMax, replicasMax, queuePartitions: partitions } = config;
  const onReport = (report: QueueReport, partition: string): void => metrics.queue.reported(partition, report);
  const readers = streamReaders({ ...SYSTEM, log, uri: config.queueUri, partitions, onReport });
  const warehouse = openWarehouse(config.warehouseUri, 'consumer');
  const tracing = config.exportsSpans ? await startTracing('ingest-consumer', log, SYSTEM.clock) : undefined;
  const spans = tracing && landingSpans(tracing, { system: 'redis', destination: STREAM, group: GROUP });
  const telemetry = { metrics, log, spans };
  const replica = new Replica({ ...SYSTEM, readers, warehouse, telemetry, limits: { batchMax, replicasMax }, schemas });
  const endpoints = createProcessEndpoints(replica.state(), problem, SYSTEM, statusPages());

  const closeReaders = async (): Promise<void> => void (await Promise.all(readers.map((reader) => reader.close())));

  const stopped = new AbortController();
  let running = Promise.resolve();
  onStop({
    deadlineMs: config.drainTimeoutMs,
    cutOff: () => ({ text: 'another replica will land the rest', exitCode: EXIT.clean }),
    stop: async () => {
      stopped.abort();
      replica.stop();
      await running;
      await closeReaders();
      await warehouse.close();
      await endpoints.close();
      await tracing?.close();
    },
  });

  try {
    await joinReplicas(readers, config, SYSTEM.clock, stopped.signal, log);
    if (stopped.signal.aborted) return;
    const address = await bound('INGEST_CONSUMER_ADDR', config.address, endpoints.listen);
    running = replica.run();
    log.info({ replica: readers[0]?.name }, `listening on http://${address}`);
    await running;
  } catch (cause) {
    const failure = cause instanceof TablesDiffer ? new StartFailure(EXIT.configuration, cause.message) : cause;
    // Closing the readers removes this process from the list of replicas immediately.
    if (failure instanceof StartFailure) await closeReaders();
    throw failure;
  }
}
