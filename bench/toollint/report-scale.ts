// What toollint promises about size, measured: each case in a process of its own, memory as the system counted it.
//
//   bin/node bench/toollint/report-scale.ts [scan] [validate]      default: both
//
// scan      3,000 files with 240,000 findings: less memory than plain ESLint over the same files, within 1.25 times its
// time
// validate  250,000 findings in 120 MB: in 1 GB of memory; and as many as fit the limit of a document
//
// Rounds alternate their order; the figures are medians. Exit code 1 when a promise does not hold.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const FILES = 3000;
const FUNCTIONS = 20;
const SCAN_FINDINGS = 240_000;
const VALIDATE = [
  { findings: 250_000, bytes: 120_000_000 },
  { findings: 550_000, bytes: 265_000_000 },
];
const ROUNDS = 3;

const home = fileURLToPath(new URL('../../', import.meta.url));
const toollint = join(home, 'bin/toollint');
const folder = mkdtempSync(join(tmpdir(), 'toollint-bench-'));
let failures = 0;

interface Run {
  seconds: number;
  /** Processor time, which other work on the machine changes less. */
  processor: number;
  megabytes: number;
  code: number;
  stdout: string;
}

/** Runs the program or a node script; wall and processor time of the process, and its largest resident set. */
async function run([first = '', ...rest]: readonly string[], codes: readonly number[] = [0]): Promise<Run> {
  const preload = join(folder, 'usage.mjs');
  writeFileSync(
    preload,
    `import { writeSync } from 'node:fs';\n` +
      `process.on('exit', () => writeSync(3, JSON.stringify(process.resourceUsage())));\n`,
  );
  const [program, args] = first === toollint ? [toollint, rest] : [process.execPath, [first, ...rest]];
  const started = performance.now();
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...process.env, NODE_OPTIONS: `--import ${preload}` },
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  });
  let stdout = '';
  let usage = '';
  child.stdout?.on('data', (chunk) => (stdout = (stdout + String(chunk)).slice(-10_000)));
  (child.stdio[3] as NodeJS.ReadableStream).on('data', (chunk) => (usage += String(chunk)));
  await once(child, 'close');
  const code = child.exitCode ?? -1;
  if (!codes.includes(code)) throw new Error(`exit code ${code}: ${args.join(' ')}`);
  const { maxRSS, userCPUTime, systemCPUTime } = JSON.parse(usage) as NodeJS.ResourceUsage;
  return {
    seconds: (performance.now() - started) / 1000,
    processor: (userCPUTime + systemCPUTime) / 1e6,
    megabytes: maxRSS / 1024,
    code,
    stdout,
  };
}

function median(values: readonly number[]): number {
  return [...values].sort((left, right) => left - right)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function promise(text: string, actual: number, most: number): void {
  const holds = actual <= most;
  if (!holds) failures += 1;
  process.stdout.write(`${holds ? 'holds ' : 'BROKEN'}  ${text}: ${actual.toFixed(2)} (at most ${most})\n`);
}

function writeSources(): void {
  writeFileSync(
    join(folder, 'eslint.config.mjs'),
    `export default [{ files: ['src/**/*.js'], rules: { 'no-var': 2, 'no-console': 1, 'eqeqeq': 1, 'prefer-template': 1,
    'complexity': [1, 20], 'max-depth': 1, 'no-shadow': 1, 'no-unused-vars': 1, 'no-undef': 0,
    'no-use-before-define': 1, 'curly': 0, 'consistent-return': 1 } }];\n`,
  );
  for (let file = 0; file < FILES; file += 1) {
    const path = join(folder, 'src', String(file % 100));
    mkdirSync(path, { recursive: true });
    const functions = Array.from(
      { length: FUNCTIONS },
      (_, index) => `
/** Adds what the caller of part ${index} of file ${file} asks for. */
export function part${index}(first, second) {
  var total = first * ${index} + second;
  if (total == ${file}) {
    console.log('the total is ' + total);
  }
  return total > 10 ? total : first - second;
}`,
    );
    writeFileSync(join(path, `${file}.js`), functions.join('\n'));
  }
}

async function benchScan(): Promise<void> {
  writeSources();
  const plain = join(folder, 'plain.mjs');
  const eslint = import.meta.resolve('eslint');
  writeFileSync(
    plain,
    `import { ESLint } from '${eslint}';\n` +
      `const results = await new ESLint({ cwd: ${JSON.stringify(folder)} }).lintFiles(['src']);\n` +
      `console.log(results.reduce((sum, { messages }) => sum + messages.length, 0));\n`,
  );
  const plainRuns: Run[] = [];
  const scanRuns: Run[] = [];
  const report = join(folder, 'report.json');
  for (let round = 0; round < ROUNDS; round += 1) {
    const cases = [
      async () => plainRuns.push(await run([plain])),
      async () => scanRuns.push(await run([toollint, 'scan', 'src', '-o', report], [1])),
    ];
    for (const work of round % 2 === 0 ? cases : cases.reverse()) await work();
  }
  const { stdout } = await run([toollint, 'convert', report, '--to', 'summary']);
  process.stdout.write(`scan: ${stdout.trim()}\n`);
  if (!stdout.startsWith(`${FILES} files, ${SCAN_FINDINGS} findings`) || Number(plainRuns[0]?.stdout) !== SCAN_FINDINGS)
    throw new Error('not the canonical workload');
  const seconds = (runs: readonly Run[]) => median(runs.map((one) => one.seconds));
  const megabytes = (runs: readonly Run[]) => median(runs.map((one) => one.megabytes));
  const processor = (runs: readonly Run[]) => median(runs.map((one) => one.processor)).toFixed(1);
  process.stdout.write(`processor time: plain ESLint ${processor(plainRuns)} s, toollint ${processor(scanRuns)} s\n`);
  const figures = (runs: readonly Run[]) => `${seconds(runs).toFixed(1)} s, ${megabytes(runs).toFixed(0)} MB`;
  process.stdout.write(`plain ESLint ${figures(plainRuns)}; toollint ${figures(scanRuns)}\n`);
  promise('scan, times the memory of plain ESLint', megabytes(scanRuns) / megabytes(plainRuns), 1);
  promise('scan, times plain ESLint', seconds(scanRuns) / seconds(plainRuns), 1.25);
}

/** A valid report of so many findings, each with a fingerprint of its own, and about so many bytes. */
function writeReport(path: string, findings: number, bytes: number): void {
  const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 32);
  const header = {
    schemaVersion: 1,
    tool: { name: 'toollint', version: '1.0.0' },
    execution: { status: 'complete', diagnostics: [] },
    scan: {
      scopeKnown: true,
      target: { kind: 'project', path: '.' },
      timestamp: '2026-01-31T12:00:00Z',
      durationMs: 1,
      profile: null,
      enabledRuleIds: ['no-console'],
      include: [],
      exclude: [],
    },
    selection: { quiet: false },
    gate: { status: 'not-evaluated' },
    summary: {
      totalFiles: 4000,
      totalIssues: findings,
      parseErrors: 0,
      ruleErrors: 0,
      bySeverity: { error: 0, warning: findings, info: 0 },
    },
  };
  const lineOf = (index: number, codeSnippet: string) =>
    JSON.stringify({
      ruleId: 'no-console',
      severity: 'warning',
      message: 'Unexpected console statement.',
      fingerprint: digest(`c${index}`) + digest(`p${index >> 8}`),
      fingerprintVersion: 'toolLint/v1',
      occurrence: 1,
      location: { scope: 'file', path: `src/${index >> 8}.js`, line: (index & 255) + 1, column: 5 },
      codeSnippet,
      standardIds: [],
    });
  const padding = 'x'.repeat(Math.max(0, Math.round(bytes / findings) - lineOf(findings, '').length - 2));
  const file = openSync(path, 'w');
  let text = `${JSON.stringify(header).slice(0, -1)},"findings":[\n`;
  for (let index = 0; index < findings; index += 1) {
    text += `${index === 0 ? '' : ',\n'}${lineOf(index, padding)}`;
    if (text.length < 1 << 20) continue;
    writeSync(file, text);
    text = '';
  }
  writeSync(file, `${text}]}\n`);
  closeSync(file);
}

async function benchValidate(): Promise<void> {
  for (const { findings, bytes } of VALIDATE) {
    const path = join(folder, 'long.json');
    writeReport(path, findings, bytes);
    const runs: Run[] = [];
    for (let round = 0; round < ROUNDS; round += 1) runs.push(await run([toollint, 'validate', path]));
    const megabytes = median(runs.map((one) => one.megabytes));
    const size = (statSync(path).size / 1e6).toFixed(0);
    const seconds = median(runs.map((one) => one.seconds)).toFixed(1);
    process.stdout.write(`validate: ${findings} findings, ${size} MB: ${seconds} s, ${megabytes.toFixed(0)} MB\n`);
    if (findings === 250_000) promise('validate, MB', megabytes, 1000);
    rmSync(path);
  }
}

const cases = { scan: benchScan, validate: benchValidate };
try {
  const asked = process.argv.slice(2);
  for (const [name, work] of Object.entries(cases)) if (asked.length === 0 || asked.includes(name)) await work();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failures === 0 ? 0 : 1;
