// What the gateway allocates on V8's heap for an event, and how often that is collected, against the floor.
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { BenchCase } from '../bench-case.ts';
import type { RunningServer } from '../bench-environment.ts';
import type { Observer } from '../measure.ts';
import { FLOOR, GATEWAY } from '../subjects.ts';

const PER = 10_000;

export const allocation: BenchCase = {
  name: 'allocation',
  aim: 'How many bytes 10,000 events leave to the garbage collector, and how often it runs for them.',
  roundsMax: 3,
  comparisons: [
    { metric: 'allocatedBytes', of: 'gateway', against: 'floor' },
    { metric: 'collections', of: 'gateway', against: 'floor' },
  ],
  runs: (bench) => {
    const file = join(bench.environment.folder, 'allocation.json');
    const probe = pathToFileURL(join(import.meta.dirname, '../load/allocation-probe.ts')).href;
    const env = { NODE_OPTIONS: `--import=${probe}`, BENCH_ALLOCATION_FILE: file };
    return [GATEWAY, FLOOR].map((subject) =>
      bench.run({ label: subject.name, subject, env, observe: (server) => allocationObserver(server, file) }),
    );
  },
};

function allocationObserver(server: RunningServer, file: string): Observer {
  rmSync(file, { force: true });
  const signal = (): boolean => process.kill(server.pid, 'SIGUSR2');
  return {
    warm: signal,
    done: signal,
    figures: async (accepted) => {
      const { bytes, collections } = await contentOf(file);
      return { allocatedBytes: ((bytes / accepted) * PER) / 1e6, collections: (collections / accepted) * PER };
    },
  };
}

/** The probe writes at its next turn; the load generator's end is later than that, but not by law. */
async function contentOf(file: string): Promise<{ bytes: number; collections: number }> {
  for (let tries = 0; ; tries += 1) {
    try {
      return JSON.parse(readFileSync(file, 'utf8')) as { bytes: number; collections: number };
    } catch (cause) {
      if (tries > 100) throw new Error('the allocation probe wrote nothing', { cause });
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
