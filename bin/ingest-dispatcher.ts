// The dispatcher's process (RFC 014): start in order, stop in order, exit codes. The only place that names its
// adapters.
import './early-signals.ts';
import { readDispatcherConfig, type DispatcherConfig } from '../lib/dispatcher/config.ts';
import { dispatcherMetrics } from '../lib/dispatcher/metrics.ts';
import { problem } from '../lib/ingest/errors.ts';
import { createProcessEndpoints, type ProcessState } from '../lib/http/process-endpoints.ts';
import { NamedClientsTls } from '../lib/identity/accepted-client.ts';
import { tlsReloadable } from '../lib/identity/tls-material.ts';
import { isLoopback } from '../lib/process/env.ts';
import type { Log } from '../lib/process/log.ts';
import { maskedUri } from '../lib/process/masked-uri.ts';
import { StartFailure, version } from '../lib/process/program.ts';
import { daemonHelp } from '../lib/process/settings-text.ts';
import { QueueServer } from '../lib/dispatcher/queue-server.ts';
import { exposition, prefersOpenMetrics } from '../lib/telemetry/exposition.ts';
import { startTracing } from '../lib/telemetry/tracing.ts';
import { inspectQueue } from '../lib/redis/stream/inspect-queue.ts';
import { QUEUE_KEYS, sessionsOf, startQueues, type Refusals } from './dispatcher-queues.ts';
import { bound, type OnStop } from '../lib/process/daemon.ts';
import { startDaemon } from './start.ts';
import { SYSTEM } from './system.ts';

const NAME = 'ingest-dispatcher';

const HELP = daemonHelp('dispatcher', {
  summary: 'takes events from gateways and puts each on one of two queues, by the hash of its id (RFC 014).',
  connected: 'both queues (exit 4)',
  exits: '4 neither queue takes events at start',
});

await startDaemon({ name: NAME, help: HELP, read: readDispatcherConfig, check, connect, run });

async function check(config: DispatcherConfig): Promise<void> {
  await (config.tls && tlsReloadable(config.tls, SYSTEM.clock));
}

async function connect(config: DispatcherConfig, found: (line: string) => void): Promise<void> {
  for (const [at, uri] of config.queueUris.entries()) {
    const queue = {
      uri,
      partitions: config.queuePartitions,
      program: 'gateway',
      takesEvents: true,
      key: QUEUE_KEYS[at as 0 | 1],
    } as const;
    const about = inspectQueue(queue, SYSTEM).catch((cause: unknown) => {
      if (!(cause instanceof StartFailure && cause.message.includes('NOAUTH'))) throw cause;
      return `queue ${maskedUri(uri)}: asks for credentials, which gateways bring`;
    });
    found(await about);
  }
}

async function run(config: DispatcherConfig, log: Log, onStop: OnStop): Promise<void> {
  const tls = config.tls && (await NamedClientsTls.read(config.tls, SYSTEM.clock));
  const metrics = dispatcherMetrics(SYSTEM.clock);
  const tracing = config.exportsSpans ? await startTracing(NAME, version(), log, SYSTEM.clock) : undefined;
  const refusals: Refusals = [undefined, undefined];
  const sessions = sessionsOf(config, refusals, metrics, tracing, log);
  const server = new QueueServer({
    anonymous: sessions.anonymous,
    authenticate: (user, password) => sessions.authenticate(user, password),
    tls,
    clock: SYSTEM.clock,
    log,
  });
  metrics.connections.read(() => server.connections);
  metrics.certificateExpiry.readEach(() => tls?.expiry ?? []);
  const onChange = (): void => {
    const closed = server.replaceTls(tls?.context ?? {});
    if (closed > 0) log.warn({ connections: closed }, 'closed connections of gateways that are not admitted any more');
    metrics.tlsReloads.add();
  };
  const tlsWatch = tls?.watch(log, onChange, () => metrics.tlsReloadFailures.add());
  let stopping = false;
  const state: ProcessState = {
    draining: () => stopping,
    unready: () => sessions.trouble,
    unavailable: () => [],
    metrics: (accept) => exposition(metrics.registry, prefersOpenMetrics(accept)),
  };
  const endpoints = createProcessEndpoints(state, problem, SYSTEM);
  await startQueues(config, refusals, sessions);
  const admin = await bound('INGEST_ADMIN_ADDR', config.adminAddress, endpoints.listen);
  log.info(`process endpoints on http://${admin}`);
  const address = await bound('INGEST_DISPATCH_ADDR', config.address, ({ host, port }) => server.listen(host, port));
  if (config.tls === undefined && !isLoopback(config.address))
    log.warn('gateways connect without TLS: any client that reaches this address can put events on the queues');
  if (tlsWatch !== undefined) process.on('SIGHUP', () => void tlsWatch.now());
  onStop({
    deadlineMs: config.drainTimeoutMs,
    cutOff: 'closing what is left',
    stop: async () => {
      stopping = true;
      tlsWatch?.stop();
      await server.drain();
      await sessions.close();
      await endpoints.close();
      await tracing?.close();
    },
  });
  log.info(`listening on dispatcher${config.tls === undefined ? '' : 's'}://${address}`);
}
