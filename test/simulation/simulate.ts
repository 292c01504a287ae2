// `make simulate` runs SIM_SEEDS seeds, beginning with SIM_FROM. With SIM_TWICE=1 each seed runs twice. The program
// exits with 1 after a violation, if the two traces of a seed differ, or if at least MARKED_SEEDS seeds ran and none
// of them reached some mark.
import { Marks } from './marks.ts';
import { RedisServer } from './redis-server.ts';
import { runSeeds } from './runs.ts';
import { Store } from './store.ts';

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const { SIM_SEEDS = '300', SIM_FROM = '1', SIM_TWICE } = process.env;
/** With fewer seeds, a run may miss a rare mark by chance. */
const MARKED_SEEDS = 300;

const parts = { server: await RedisServer.start(), store: await Store.open(), marks: new Marks() };
const begunMs = performance.now();
const runs = { from: Number(SIM_FROM), seeds: Number(SIM_SEEDS), repeatedOneIn: SIM_TWICE === '1' ? 1 : 20 };
const { seeds, accepted, finding } = await runSeeds(parts, runs);
await parts.server.stop();
parts.store.close();

for (const [mark, count] of parts.marks.counts) print(`${String(count).padStart(9)}  ${mark}`);
print(
  `${seeds} seeds from ${SIM_FROM} on, ${accepted} events accepted, ${Math.round((performance.now() - begunMs) / 1000)} s`,
);
if (finding !== undefined) print(finding.text);
else for (const mark of parts.marks.unreached) print(`no seed reached this: ${mark}`);
const missed = seeds >= MARKED_SEEDS && parts.marks.unreached.length > 0;
process.exit(finding === undefined && !missed ? 0 : 1);
