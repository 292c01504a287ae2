// Counts the files that a flow enters, and the changes from one file to another: `bin/node bench/flows.ts`. Prints the
// shortest of several runs, because timers run meanwhile. The thread of SQLite is not traced.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TestRedis } from '../test/support/redis.ts';
import { Pipeline } from '../test/support/pipeline.ts';
import { Program, type ProgramName } from '../test/support/program.ts';
import { eventually, temporaryFolder } from '../test/support/scope.ts';

const ROUNDS = 9;
const folder = temporaryFolder('flows-');
const hook = new URL('flow-trace.ts', import.meta.url).href;
const env = { FLOWS_FOLDER: folder, NODE_OPTIONS: `--import=${hook}` };

function reports({ child }: Program): readonly string[] {
  const path = join(folder, String(child.pid));
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
}

async function reported(program: Program): Promise<string> {
  const { length } = reports(program);
  program.signal('SIGUSR2');
  return eventually('a report', () => reports(program)[length]);
}

interface Report {
  readonly files: number;
  readonly pairs: readonly (readonly [pair: string, changes: number])[];
}

function print(flow: string, lines: readonly string[]): void {
  const changesOf = ({ pairs }: Report): number => pairs.reduce((sum, [, changes]) => sum + changes, 0);
  const all = lines.map((line) => JSON.parse(line) as Report);
  const [least] = all.sort((one, other) => changesOf(one) - changesOf(other));
  if (least === undefined) throw new Error(`${flow} was not traced`);
  const most = least.pairs.slice(0, 3).map(([pair, changes]) => `  ${changes} ${pair}\n`);
  process.stdout.write(`${flow}: ${least.files} files, ${changesOf(least)} changes\n${most.join('')}`);
}

async function measure(flow: string, program: Program, act: (round: number) => Promise<unknown>): Promise<void> {
  const lines: string[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await reported(program);
    await act(round);
    lines.push(await reported(program));
  }
  print(flow, lines);
}

async function measureCommand(name: ProgramName, args: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const program = new Program(name, { args, env: { ...env, ...more }, cwd: folder });
  await program.ended;
  print(`${name} ${args[0]}`, reports(program));
}

const redis = await TestRedis.start(['--appendonly', 'no']);
const warehouseUri = `sqlite:${join(folder, 'warehouse.db')}`;
const pipeline = await Pipeline.start({ queueUri: redis.uri, warehouseUri, env });
const { gateway, replicas } = pipeline;
const consumer = replicas[0]?.program as Program;
const post = (id: string) => pipeline.post(JSON.stringify({ id, type: 't' }));
const landed = (id: string) =>
  eventually('it has landed', async () => (await pipeline.find(id)).body['status'] === 'landed');

await post('first');
await landed('first');
await measure('POST', gateway, (round) => post(`post ${round}`));
await measure('GET', gateway, () => pipeline.find('first'));
await measure('landing', consumer, async (round) => {
  await post(`land ${round}`);
  await landed(`land ${round}`);
});
await measure('TLS reload', gateway, async () => {
  const count = (): number => gateway.lines.filter((line) => line.includes('files reloaded')).length;
  const before = count();
  gateway.signal('SIGHUP');
  await eventually('they are reloaded', () => count() > before);
});
await measureCommand('ingest-admin', ['erase', 'first', '--yes'], {
  INGEST_QUEUE_URI: redis.uri,
  INGEST_WAREHOUSE_URI: warehouseUri,
});
const scanned = temporaryFolder('flows-scan-');
writeFileSync(join(scanned, 'eslint.config.js'), 'export default [{ rules: { "no-var": "error" } }];\n');
writeFileSync(join(scanned, 'a.js'), 'var a = 1;\n');
await measureCommand('toollint', ['scan', '--root', scanned]);
await pipeline.stop();
process.exit(0);
