// The gateway's process: start in order, stop in order, exit codes. The only place that names its adapters.
import './early-signals.ts';
import type { SecureContextOptions } from 'node:tls';
import { Gateway } from '../lib/gateway/gateway.ts';
import { gatewayMetrics } from '../lib/gateway/metrics.ts';
import { Quotas } from '../lib/gateway/quotas.ts';
import { RequestSpans } from '../lib/gateway/request-spans.ts';
import { readGatewayConfig, type GatewayConfig } from '../lib/gateway/config.ts';
import { isDispatcher } from '../lib/process/queue-uri.ts';
import { HANDSHAKE_FAILURES } from '../lib/http/node/faults.ts';
import { ERROR_CODES } from '../lib/ingest/errors.ts';
import { acceptingQueue, type AcceptingQueue, type StreamsOptions } from '../lib/redis/accept/open-queue.ts';
import { isPasswordRefused } from '../lib/redis/wire/errors.ts';
import { STREAM } from '../lib/redis/stream/layout.ts';
import { startTracing } from '../lib/telemetry/tracing.ts';
import { addressText } from '../lib/process/env.ts';
import { settingsHelp } from '../lib/process/settings-text.ts';
import type { Log } from '../lib/process/log.ts';
import { version } from '../lib/process/program.ts';
import { runtimeWarning } from '../lib/process/runtime.ts';
import type { TlsMaterial } from '../lib/identity/tls-material.ts';
import { WarehouseMisconfigured, type Warehouse } from '../lib/ingest/warehouse.ts';
import { createProcessEndpoints, type ProcessEndpoints } from '../lib/http/process-endpoints.ts';
import {
  dispatcherName,
  inspectQueue,
  inspectWarehouse,
  queueAway,
  queueFailure,
  queueRefused,
  quietLog,
} from './check-connect.ts';
import { allFiles, producers, readFiles, tlsMaterial, tokenVerifier, watchFiles } from '../lib/gateway/files.ts';
import { watchCredentials } from './credentials.ts';
import { bindFailure, startDaemon, type OnStop } from './start.ts';
import { openQueue, startQueue } from './queue-adapter.ts';
import { openWarehouse } from './warehouse-adapter.ts';
import { SYSTEM } from './system.ts';

const NAME = 'ingest-gateway';

type QueueOptions = Omit<StreamsOptions, 'partitions' | 'replicas'>;
const QUEUE_START_MS = 5_000;
/** Between looks at a warehouse that was away at the start. */
const WAREHOUSE_LOOK_MS = 1_000;

const HELP = `${NAME}: takes events over mutual TLS and puts them on a Redis Stream, or hands them to a dispatcher.

  ${NAME}                  start, with the configuration in the environment
  ${NAME} --check          look at the configuration and the files it names; start nothing; exit 0 or 2
  ${NAME} --check=connect  also connect to the queue (exit 4) and the warehouse (exit 5), and say what is there
  ${NAME} --version        print the version
  ${NAME} --help           print this

${settingsHelp('gateway')}
Exit codes: 0 clean stop, 1 bug, 2 configuration, 3 address cannot be bound, 4 queue not there at start,
5 (--check=connect) warehouse cannot be used.
`;

await startDaemon({ name: NAME, help: HELP, read: readGatewayConfig, check, connect, run });

async function check(config: GatewayConfig): Promise<void> {
  const tls = config.tls.kind === 'files' ? tlsMaterial(config.tls, SYSTEM.clock.epochMs()) : undefined;
  await allFiles([tls, tokenVerifier(config), producers(config)]);
}

async function connect(config: GatewayConfig, found: (line: string) => void): Promise<void> {
  const files = config.tls.kind === 'files' ? config.tls : undefined;
  const material =
    files !== undefined && isDispatcher(config.queueUri) ? await tlsMaterial(files, SYSTEM.clock.epochMs()) : undefined;
  const about = isDispatcher(config.queueUri)
    ? dispatcherName(config.queueUri)
    : await inspectQueue({ uri: config.queueUri, partitions: config.queuePartitions, program: 'gateway' });
  const options = { ...queueOptions(config, quietLog), makes: false };
  const opened = gatewayQueue(config, options, () => material?.context ?? {});
  try {
    await start(config, opened);
    found(`${about}, takes events`);
  } finally {
    await opened.queue.close();
  }
  if (config.warehouseUri !== undefined) found(await inspectWarehouse(config.warehouseUri, 'gateway'));
}

async function run(config: GatewayConfig, log: Log, onStop: OnStop): Promise<void> {
  const runtime = runtimeWarning(process.versions.node);
  if (runtime !== undefined) log.warn(runtime);
  const files = await readFiles(config, log, SYSTEM);
  const { material, verifier, rows } = files;
  const isLimited = config.producerRateMax !== undefined || config.producersFile !== undefined;
  const quotas = isLimited ? new Quotas(rows, config.producerRateMax, SYSTEM.clock) : undefined;

  const tracing = config.exportsSpans ? await startTracing(NAME, version(), log, SYSTEM.clock) : undefined;
  const spans = tracing && new RequestSpans(tracing, { system: 'redis', destination: STREAM }, SYSTEM.clock);

  const metrics = gatewayMetrics(ERROR_CODES, HANDSHAKE_FAILURES, SYSTEM.clock, config.producerMetrics);
  let inUse = material;
  const credentials = await watchCredentials(config, readGatewayConfig, log);
  const observed: QueueOptions = {
    ...queueOptions(config, log),
    credentials: credentials.queue[0],
    onCall: (seconds, events) => metrics.enqueue.observe(seconds, events),
    onLost: (events) => metrics.lost.add(events),
    onLook: (look, partition) => metrics.queue.looked(partition, look),
  };
  const opened = gatewayQueue(config, observed, () => inUse.context);
  const { queue } = opened;
  const warehouse =
    config.warehouseUri === undefined
      ? undefined
      : openWarehouse(config.warehouseUri, 'gateway', { credentials: credentials.warehouse });
  const gateway = new Gateway({ ...SYSTEM, config, log, material, verifier, queue, warehouse, quotas, spans, metrics });
  // Watched before the wait for the queue: a change in that time counts too.
  const onMaterial = (changed: TlsMaterial): void => void (inUse = changed);
  const watched = watchFiles(config, files, { gateway, quotas, metrics, onMaterial }, log, SYSTEM.clock);
  await start(config, opened);
  if (warehouse !== undefined) void warnOfWarehouse(warehouse, gateway.state.draining, log);
  const endpoints = await bindAdmin(config, gateway, log);
  const address = await bind(config, gateway);

  process.on('SIGHUP', () => watched.reload());
  onStop({
    deadlineMs: config.drainTimeoutMs,
    cutOff: 'closing what is left',
    stop: async () => {
      watched.stop();
      credentials.stop();
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

/**
 * Look-ups need the warehouse, accepting does not: a gateway starts without it, and says so; and once more when the
 * warehouse is back.
 */
async function warnOfWarehouse(warehouse: Warehouse, draining: () => boolean, log: Log): Promise<void> {
  for (let wasAway = false; !draining(); wasAway = true) {
    try {
      await warehouse.probe();
      if (wasAway) log.info('the warehouse is back');
      return;
    } catch (cause) {
      const what = cause instanceof WarehouseMisconfigured ? 'cannot work as configured' : 'is away';
      const reason = cause instanceof Error ? cause.message : 'unknown error';
      if (!wasAway) log.warn({ reason }, `the warehouse ${what}: look-ups fail`);
    }
    await SYSTEM.clock.sleep(WAREHOUSE_LOOK_MS);
  }
}

/** What every queue of this program is opened with. */
function queueOptions(config: GatewayConfig, log: Log) {
  return {
    ...SYSTEM,
    uri: config.queueUri,
    name: NAME,
    enqueueTimeoutMs: config.enqueueTimeoutMs,
    log,
    durability: config.queueDurability,
    compression: config.queueCompression,
    unlandedMs: config.unlandedMs,
    bodyBytesMax: config.bodyBytesMax,
  };
}

/** The queue that the configuration names; `certificate` is shown to a dispatcher. */
function gatewayQueue(
  config: GatewayConfig,
  options: QueueOptions,
  certificate: () => Pick<SecureContextOptions, 'cert' | 'key'>,
): AcceptingQueue {
  if (isDispatcher(config.queueUri)) return openQueue({ ...options, certificate });
  const { queuePartitions: partitions, queueReplicas: replicas } = config;
  return acceptingQueue({ ...options, partitions, replicas });
}

/** Throws a StartFailure where the queue takes no event in time, or is refused. */
async function start(config: GatewayConfig, opened: AcceptingQueue): Promise<void> {
  const why = await startQueue(opened, QUEUE_START_MS);
  if (why === undefined) return;
  if (typeof why !== 'string') throw queueRefused(config.queueUri, why);
  if (isPasswordRefused(why)) throw queueAway(config.queueUri, why);
  throw queueFailure(
    config.queueUri,
    `the queue takes no events (${why}); check that the server runs, is reachable and can be written to`,
  );
}

/** The process endpoints on an address of their own, where one is configured. Throws a StartFailure. */
async function bindAdmin(config: GatewayConfig, gateway: Gateway, log: Log): Promise<ProcessEndpoints | undefined> {
  if (config.adminAddress === undefined) return undefined;
  const endpoints = createProcessEndpoints(gateway.state, SYSTEM);
  try {
    const { address, port } = await endpoints.listen(config.adminAddress);
    log.info(`process endpoints on http://${addressText({ host: address, port })}`);
    return endpoints;
  } catch (cause) {
    throw bindFailure('INGEST_ADMIN_ADDR', config.adminAddress, cause);
  }
}

async function bind({ address, reusePort }: GatewayConfig, gateway: Gateway): Promise<string> {
  try {
    return await gateway.listen(address.host, address.port, reusePort);
  } catch (cause) {
    throw bindFailure('INGEST_GATEWAY_ADDR', address, cause);
  }
}
