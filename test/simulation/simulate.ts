// `make simulate`: SIM_SEEDS runs from SIM_FROM on. Exits with 0 only where none violated the promise and every mark was
// reached.
import { Marks } from './marks.ts';
import { RedisServer } from './redis-server.ts';
import { runSeeds } from './runs.ts';
import { Store } from './store.ts';
import { commitBefore, consumerOf } from './version-before.ts';

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const { SIM_SEEDS = '300', SIM_FROM = '1' } = process.env;

const commit = commitBefore();
print(
  commit === undefined ? 'no commit before is in this clone: all consumers are of now' : `some consumers of ${commit}`,
);
const parts = {
  server: await RedisServer.start(),
  store: await Store.open(),
  marks: new Marks(commit !== undefined),
  ...(commit === undefined ? {} : { before: await consumerOf(commit) }),
};
const begunMs = performance.now();
const { seeds, accepted, finding } = await runSeeds(parts, { from: Number(SIM_FROM), seeds: Number(SIM_SEEDS) });
await parts.server.stop();
parts.store.close();

for (const [mark, count] of parts.marks.counts) print(`${String(count).padStart(9)}  ${mark}`);
print(
  `${seeds} seeds from ${SIM_FROM} on, ${accepted} events accepted, ${Math.round((performance.now() - begunMs) / 1000)} s`,
);
if (finding !== undefined) print(finding.text);
else for (const mark of parts.marks.unreached) print(`no seed reached this: ${mark}`);
process.exit(finding === undefined && parts.marks.unreached.length === 0 ? 0 : 1);
