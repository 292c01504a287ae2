// A Redis Cluster of masters alone, for measurements: their slots are shared out evenly, and nothing fails over.
import { setTimeout as delay } from 'node:timers/promises';
import { askOnce } from '../../lib/redis/server/ask-once.ts';
import { freePort, type BenchEnvironment, type RunningServer } from '../bench-environment.ts';
import { SYSTEM } from '../../test/support/system.ts';

const SLOTS = 16_384;
const WHOLE_WITHIN_MS = 20_000;

export interface BenchCluster {
  readonly uri: string;
  readonly masters: readonly RunningServer[];
  stop(): Promise<void>;
}

const ask = (port: number, ...command: readonly string[]): Promise<unknown> =>
  askOnce(SYSTEM, `redis://127.0.0.1:${port}`, (server) => server.send(command));

export async function startCluster(environment: BenchEnvironment, count: number): Promise<BenchCluster> {
  const buses = await Promise.all(Array.from({ length: count }, freePort));
  const masters = await Promise.all(
    buses.map((bus) => environment.redis('everysec', ['--cluster-enabled', 'yes', '--cluster-port', String(bus)])),
  );
  for (const [at, { port }] of masters.entries()) {
    const [from, to] = [at, at + 1].map((part) => Math.floor((SLOTS * part) / count));
    await ask(port, 'CLUSTER', 'ADDSLOTSRANGE', String(from), String((to ?? SLOTS) - 1));
    const [first] = masters;
    if (at > 0) await ask(port, 'CLUSTER', 'MEET', '127.0.0.1', String(first?.port), String(buses[0]));
  }
  const deadline = performance.now() + WHOLE_WITHIN_MS;
  for (const { port } of masters) {
    while (!/cluster_state:ok\r\n[^]*cluster_slots_ok:16384/.test(String(await ask(port, 'CLUSTER', 'INFO')))) {
      if (performance.now() > deadline) throw new Error('the cluster did not come together');
      await delay(50);
    }
  }
  return {
    uri: `redis+cluster://${masters.map(({ port }) => `127.0.0.1:${port}`).join()}`,
    masters,
    stop: async () => void (await Promise.all(masters.map((master) => master.stop()))),
  };
}
