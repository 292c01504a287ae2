// ingest-gateway: accepts events and queues them. This file wires up the program and stops its parts in order.
import './early-signals.ts';
import { existsSync, readFileSync } from 'node:fs';
import { Gateway } from '../lib/gateway/gateway.ts';
import { gatewayMetrics } from '../lib/gateway/metrics.ts';
import { RequestSpans } from '../lib/gateway/request-spans.ts';
import { readGatewayConfig, type GatewayConfig } from '../lib/gateway/config.ts';
import { PartitionedQueue } from '../lib/ingest/partitioned-queue.ts';
import type { Queue } from '../lib/ingest/queue.ts';
import { isDispatcher } from '../lib/process/queue-uri.ts';
import { acceptingStreams, inspectGatewayQueue, startQueue } from '../lib/redis/accept/open-queue.ts';
import { STREAM } from '../lib/redis/stream/layout.ts';
import { statusPages } from '../lib/telemetry/status-page.ts';
import { startTracing } from '../lib/telemetry/tracing.ts';
import { createLog, type Log } from '../lib/process/log.ts';
import { messageOf } from '../lib/process/message-of.ts';
import { EXIT } from '../lib/process/program.ts';
import { problem } from '../lib/ingest/errors.ts';
import { createProcessEndpoints } from '../lib/http/process-endpoints.ts';
import { checkFiles, readFiles, watchFiles } from '../lib/gateway/watched-files.ts';
import { Producers } from '../lib/gateway/producers-file.ts';
import { bound, startDaemon, type OnStop } from './daemon.ts';
import { inspectWarehouse, openWarehouse } from './warehouse-adapter.ts';
import { SYSTEM } from '../lib/process/clock.ts';

const QUEUE_START_MS = 5_000;
/** Open files that are not connections of clients. */
const FILES_BESIDE = 64;

await startDaemon({
  program: 'gateway',
  summary: 'accepts events over mutual TLS and adds them to a Redis Stream.',
  exits: '4 queue unavailable at start,\n5 (--check=connect) warehouse cannot be used',
  read: readGatewayConfig,
  check: async (config) => [...openFilesWarnings(config), ...(await checkFiles(config, SYSTEM.clock))],
  connect,
  run,
});

async function connect(config: GatewayConfig, report: (line: string) => void): Promise<void> {
  report(await inspectGatewayQueue(queueOptions(config, createLog('check', 'error')), QUEUE_START_MS));
  if (config.warehouseUri !== undefined) report(await inspectWarehouse(config.warehouseUri, 'gateway'));
}

async function run(config: GatewayConfig, log: Log, onStop: OnStop): Promise<void> {
  for (const warning of openFilesWarnings(config)) log.warn(warning);
  const files = await readFiles(config, log, SYSTEM);
  const material = files.material.value;
  const tracing = config.exportsSpans ? await startTracing('ingest-gateway', log, SYSTEM.clock) : undefined;
  const spans = tracing && new RequestSpans(tracing, { system: 'redis', destination: STREAM }, SYSTEM.clock);

  const metrics = gatewayMetrics(SYSTEM.clock);
  const streams = acceptingStreams({
    ...queueOptions(config, log),
    observer: {
      onCall: (seconds, events) => metrics.enqueue.observe(seconds, events),
      onReport: (report, partition) => metrics.queue.reported(partition, report),
    },
  });
  const queue = oneQueue(config.queueUri, streams);
  const warehouse = config.warehouseUri === undefined ? undefined : openWarehouse(config.warehouseUri, 'gateway');
  metrics.replicasRequired.read(() => config.queueReplicas);
  if (warehouse !== undefined) metrics.lookupsAvailable.readProbe(() => warehouse.probe(), SYSTEM.clock);
  const gateway = new Gateway({
    config,
    system: SYSTEM,
    identity: { material, verifier: files.verifier },
    queue,
    warehouse,
    producers: files.producers?.value ?? Producers.UNRESTRICTED,
    telemetry: { log, metrics, spans },
  });
  // Watching starts first, so that files that change while the gateway waits for the queue are reloaded too.
  const watched = watchFiles(config, files, { gateway, metrics }, log, SYSTEM.clock);
  await startQueue(config.queueUri, streams, SYSTEM.clock, QUEUE_START_MS);
  warehouse?.probe().catch((cause: unknown) => {
    if (gateway.state.draining()) return;
    const text = 'the warehouse did not pass its check at startup: look-ups answer 503 until it can be queried';
    log.warn({ reason: messageOf(cause) }, text);
  });
  const endpoints = config.adminAddress && createProcessEndpoints(gateway.state, problem, SYSTEM, statusPages());
  if (config.adminAddress !== undefined && endpoints !== undefined)
    log.info(`process endpoints on http://${await bound('INGEST_ADMIN_ADDR', config.adminAddress, endpoints.listen)}`);
  const address = await bound('INGEST_GATEWAY_ADDR', config.address, ({ host, port }) =>
    gateway.listen(host, port, config.reusePort),
  );

  process.on('SIGHUP', () => watched.reload());
  onStop({
    deadlineMs: config.drainTimeoutMs,
    cutOff: () => ({ text: `${gateway.openRequests} requests were cut off`, exitCode: EXIT.fatal }),
    stop: async () => {
      watched.stop();
      gateway.beginStop();
      await SYSTEM.clock.sleep(config.drainDelayMs);
      await gateway.drain();
      await queue.close();
      await warehouse?.close();
      await endpoints?.close();
      await tracing?.close();
    },
  });
  log.info(`listening on https://${address}`);
}

/** Above the limit on open files, Linux resets connections, and neither node nor this process notices. */
function openFilesWarnings({ connectionsMax }: GatewayConfig): readonly string[] {
  const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'latin1') : '';
  const files = Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
  if (connectionsMax + FILES_BESIDE <= files) return [];
  return [
    `INGEST_CONNECTIONS_MAX=${connectionsMax}: this process may open only ${files} files, and further connections ` +
      'are reset; raise the limit (ulimit -n, LimitNOFILE), or lower this key',
  ];
}

/** Combines the streams into one queue. With a dispatcher URI, events whose stream is unavailable are shed. */
function oneQueue(uri: string, queues: readonly Queue[]): Queue {
  const [first, ...others] = queues;
  if (first !== undefined && others.length === 0) return first;
  return new PartitionedQueue(queues, isDispatcher(uri) ? 'shed' : 'unavailable');
}

function queueOptions(config: GatewayConfig, log: Log) {
  const { queueUri: uri, queuePartitions: partitions, queueReplicas: replicas } = config;
  const { queueDurability: level, enqueueTimeoutMs, bodyBytesMax } = config;
  const limits = { enqueueTimeoutMs, bodyBytesMax };
  return { ...SYSTEM, log, uri, partitions, limits, durability: { level, replicas } };
}
