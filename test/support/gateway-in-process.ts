// A gateway in this process, with a queue in memory.
import assert from 'node:assert/strict';
import { readGatewayConfig } from '../../lib/gateway/config.ts';
import { Gateway, type GatewayParts, type GatewayTelemetry } from '../../lib/gateway/gateway.ts';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { loadTlsMaterial } from '../../lib/identity/tls-material.ts';
import type { Environment } from '../../lib/process/read-settings.ts';
import type { Log } from '../../lib/process/log.ts';
import { MemoryQueue, MemoryQueueStore } from './memory-queue.ts';
import type { Pki } from './pki.ts';
import { atEnd } from './scope.ts';
import { SYSTEM } from './system.ts';

export interface Line {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export function keepingLog(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const at =
    (level: string) =>
    (fields: object | string, msg?: string): void =>
      void lines.push(typeof fields === 'string' ? { level, msg: fields } : { ...fields, level, msg: msg ?? '' });
  const levels = Object.fromEntries(['debug', 'info', 'warn', 'error'].map((level) => [level, at(level)]));
  return { log: { ...levels, isLevelEnabled: () => true } as unknown as Log, lines };
}

type Chosen = Pick<GatewayParts, 'queue' | 'warehouse' | 'producers'> &
  Pick<GatewayParts['identity'], 'verifier'> &
  Pick<GatewayParts['system'], 'clock'> &
  Pick<GatewayTelemetry, 'log' | 'spans'>;

/** Starts a gateway, which listens unless `listens` is false. `lines` stays empty if the test supplies a log. */
export async function gatewayInProcess(
  pki: Pki,
  environment: Environment = {},
  { listens = true, ...chosen }: Partial<Chosen> & { readonly listens?: boolean } = {},
) {
  const { config, report } = readGatewayConfig({
    INGEST_QUEUE_URI: 'redis://localhost',
    ...pki.environment,
    ...environment,
  });
  assert.ok(config?.tls.kind === 'files', report.problems.join());
  const { log: kept, lines } = keepingLog();
  const { queue = new MemoryQueue(new MemoryQueueStore()), warehouse, verifier, log = kept, spans } = chosen;
  const { producers = Producers.UNRESTRICTED, clock = SYSTEM.clock } = chosen;
  const metrics = gatewayMetrics(clock);
  const gateway = new Gateway({
    config,
    system: { ...SYSTEM, clock },
    identity: { material: await loadTlsMaterial(config.tls, SYSTEM.clock.epochMs()), verifier },
    queue,
    warehouse,
    producers,
    telemetry: { log, metrics, spans },
  });
  const port = listens ? (await gateway.listen('127.0.0.1', 0)).port : 0;
  if (listens)
    atEnd(async () => {
      gateway.destroy();
      await gateway.drain();
    });
  return { gateway, port, lines, metrics, files: config.tls };
}
