// `make simulate` runs SIM_SEEDS seeds, beginning with SIM_FROM. With SIM_TWICE=1 each seed runs twice. The program
// exits with 1 after a violation, or if the two traces of a seed differ.
import { RedisServer } from './redis-server.ts';
import { runSeeds } from './runs.ts';
import { Store } from './store.ts';

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const { SIM_SEEDS = '300', SIM_FROM = '1', SIM_TWICE } = process.env;

const parts = { server: await RedisServer.start(), store: await Store.open() };
const begunMs = performance.now();
const runs = { from: Number(SIM_FROM), seeds: Number(SIM_SEEDS), repeatedOneIn: SIM_TWICE === '1' ? 1 : 20 };
const { seeds, accepted, finding } = await runSeeds(parts, runs);
await parts.server.stop();
parts.store.close();

print(
  `${seeds} seeds from ${SIM_FROM} on, ${accepted} events accepted, ${Math.round((performance.now() - begunMs) / 1000)} s`,
);
if (finding !== undefined) print(finding);
process.exit(finding === undefined ? 0 : 1);
