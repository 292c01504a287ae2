import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, closeSync, mkdirSync, openSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import { open, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { VALIDATE_OPTIONS } from '../../../lib/toollint/command/documents.ts';
import { EXPLAIN_OPTIONS } from '../../../lib/toollint/command/explain.ts';
import { IMPORT_OPTIONS } from '../../../lib/toollint/command/import.ts';
import { OUTPUT_OPTIONS, VERDICT_OPTIONS } from '../../../lib/toollint/command/options.ts';
import { SCAN_OPTIONS } from '../../../lib/toollint/command/scan.ts';
import type { Report } from '../../../lib/toollint/toollint.ts';
import { configText, project, toollint, writeJson } from '../support/verbs.ts';
import { fullReport, sampleFinding, sampleReport } from '../support/samples.ts';

const HOME = fileURLToPath(new URL('../../../', import.meta.url));

const COMPILED = join(HOME, 'node_modules/.cache/compile');

function start(
  t: TestContext,
  args: readonly string[],
  { cwd = tmpdir(), env = {}, home = HOME }: { cwd?: string; env?: Record<string, string>; home?: string } = {},
) {
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', join(home, 'bin/toollint.ts'), ...args],
    { cwd, env: { NODE_COMPILE_CACHE: COMPILED, ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] },
  );
  t.after(() => child.kill('SIGKILL'));
  return child;
}

async function finished(child: ChildProcess): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const text = async (stream: NodeJS.ReadableStream | null) => {
    let all = '';
    for await (const chunk of stream ?? []) all += String(chunk);
    return all;
  };
  const closed = once(child, 'close');
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  return { code: child.exitCode, stdout, stderr };
}

describe('the program', () => {
  it('caches compiled code only in a folder that other users cannot write', async (t) => {
    const home = await project(t, { 'tmp/x': '', 'open/.cache/toollint/x': '' });
    const run = async (folder: string) => {
      const env = { HOME: join(home, folder), TMPDIR: join(home, 'tmp'), XDG_CACHE_HOME: '', NODE_COMPILE_CACHE: '' };
      assert.equal((await finished(start(t, ['--version'], { env }))).code, 0);
    };
    await run('own');
    assert.equal(statSync(join(home, 'own/.cache/toollint')).mode & 0o777, 0o700);
    assert.notDeepEqual(readdirSync(join(home, 'own/.cache/toollint')), []);
    chmodSync(join(home, 'open/.cache/toollint'), 0o777);
    await run('open');
    mkdirSync(join(home, 'linked/.cache'), { recursive: true });
    symlinkSync(join(home, 'tmp'), join(home, 'linked/.cache/toollint'));
    await run('linked');
    mkdirSync(join(home, 'shared/.cache'), { recursive: true });
    chmodSync(join(home, 'shared/.cache'), 0o777);
    await run('shared');
    assert.deepEqual(readdirSync(join(home, 'shared/.cache/toollint')), []);
    assert.deepEqual(readdirSync(join(home, 'open/.cache/toollint')), ['x']);
    assert.deepEqual(readdirSync(join(home, 'tmp')), ['x']);
  });

  it('exits with 2 on a full disk', async (t) => {
    const full = openSync('/dev/full', 'w');
    t.after(() => closeSync(full));
    const program = [join(HOME, 'bin/toollint.ts'), 'schema'];
    const { status, stderr } = spawnSync(process.execPath, program, {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    assert.deepEqual([status, stderr], [2, 'toollint: cannot write standard output: ENOSPC\n']);
    const file = await toollint(['convert', '-', '--to', 'html', '-o', '/dev/full'], {
      stdin: JSON.stringify(fullReport()),
    });
    assert.deepEqual([file.code, file.stderr], [2, 'toollint: cannot write /dev/full: ENOSPC\n']);
  });

  it('exits with 141 and no message if the reader of standard output closed it', async () => {
    for (const code of ['EPIPE', 'ERR_STREAM_DESTROYED']) {
      const stdout = new Writable({ write: (_, __, done) => done(Object.assign(new Error('no'), { code })) });
      stdout.on('error', () => undefined);
      assert.deepEqual(await toollint(['schema'], { stdout }), { code: 141, stdout: '', stderr: '' }, code);
    }
  });

  it('exits with 130 and no message after an interrupt, and reports its own bugs', async () => {
    const signal = AbortSignal.abort();
    const silent = { code: 130, stdout: '', stderr: '' };
    assert.deepEqual(await toollint(['convert', '-', '--to', 'sarif'], { signal }), silent);
    const interrupt = new AbortController();
    const stdout = new Writable({ write: (_, __, done) => [interrupt.abort(), done()] });
    const findings = Array.from({ length: 999 }, (_, index) => sampleFinding({ line: index + 1 }));
    const { args, ...given } = {
      args: ['convert', '-', '--to', 'report'],
      stdin: JSON.stringify(sampleReport(findings)),
    };
    assert.deepEqual(await toollint(args, { ...given, stdout, signal: interrupt.signal }), silent);
    const revision = () => {
      throw new Error('no revision');
    };
    const { code, stderr } = await toollint(['--version'], { revision });
    assert.deepEqual([code, stderr], [2, 'toollint: internal error: no revision\n']);
    assert.deepEqual(await toollint(['--version'], { revision, signal }), silent);
  });

  it('has a help text of at most 250 words, and with --help=all for every verb and flag', async () => {
    const { stdout: short } = await toollint(['scan', '--help']);
    assert.match(short, /^toollint: /u);
    assert.ok(short.split(/\s+/u).length <= 250);
    for (const args of [['help'], ['--help'], ['-h'], ['merge', 'x', '-h']])
      assert.deepEqual(await toollint(args), { code: 0, stdout: short, stderr: '' });
    assert.match((await toollint(['scan', '--', '--help'])).stderr, /--help: no such file or folder/u);
    const tables = {
      scan: SCAN_OPTIONS,
      validate: VALIDATE_OPTIONS,
      compare: VERDICT_OPTIONS,
      convert: OUTPUT_OPTIONS,
      merge: OUTPUT_OPTIONS,
      import: IMPORT_OPTIONS,
      explain: EXPLAIN_OPTIONS,
      schema: {},
    };
    for (const [verb, options] of Object.entries(tables)) {
      const { code, stdout } = await toollint([verb, '--help=all']);
      assert.equal(code, 0);
      for (const name of Object.keys(options)) assert.ok(stdout.includes(`--${name}`), `${verb} --${name}`);
      assert.ok(stdout.includes(`\n  ${verb} `));
    }
    assert.match((await toollint(['-V'])).stdout, /^toollint \d+\.\d+\.\d+ \(0123456789ab\)\n$/u);
  });

  it('writes text to a terminal and the document to a pipe', async (t) => {
    const cwd = await project(t, { 'a.js': 'var a;\n' });
    const shown = await toollint(['scan'], { cwd, terminal: 80 });
    assert.ok(shown.stdout.includes('\u001b[31m'));
    assert.match(shown.stdout, /no-var/u);
    assert.ok(shown.stderr.endsWith('\r\u001b[K2/2 files\r\u001b[K'));
    const unknownWidth = await toollint(['scan'], { cwd, terminal: 0 });
    assert.ok(unknownWidth.stdout.includes('Unexpected var, use let or const instead.'));
    const bare = await toollint(['scan'], { cwd, terminal: 80, env: { NO_COLOR: '1', CI: 'true' } });
    assert.deepEqual([bare.stdout.includes('\u001b'), bare.stderr], [false, '']);
    for (const [env, coloured] of [
      [{ NO_COLOR: '' }, true],
      [{ NO_COLOR: 'yes' }, false],
      [{ TERM: 'xterm' }, true],
      [{ TERM: 'dumb' }, false],
    ] as const)
      assert.equal((await toollint(['scan'], { cwd, terminal: 80, env })).stdout.includes('\u001b['), coloured);
    const piped = await toollint(['scan'], { cwd });
    assert.equal((JSON.parse(piped.stdout) as { schemaVersion: number }).schemaVersion, 1);
    assert.match(
      piped.stderr,
      /^toollint: 2 files, 1 finding: 1 error, .*; ESLint 10\.[0-9.]+\ntoollint: exit code 1: 1 error finding\n$/u,
    );
    const pretty = ['scan', '--format', 'pretty', '--color'];
    assert.ok((await toollint([...pretty, 'always'], { cwd })).stdout.includes('\u001b[31m'));
    assert.ok(!(await toollint([...pretty, 'never'], { cwd, terminal: 80 })).stdout.includes('\u001b'));
    assert.match((await toollint(['scan', '-o', 'x.json'], { cwd, terminal: 80 })).stderr, /2 files, 1 finding/u);
  });
});

describe('the process', () => {
  it('reads and writes named pipes, and ends if it is interrupted while it waits for one', async (t) => {
    const cwd = await project(t, {});
    const report = JSON.stringify(sampleReport([sampleFinding()]));
    await writeJson(cwd, 'r.json', report);
    spawnSync('mkfifo', ['in', 'out'], { cwd });
    const both = start(t, ['convert', 'in', '--to', 'report', '-o', 'out'], { cwd });
    const [, text] = await Promise.all([writeFile(join(cwd, 'in'), report), readFile(join(cwd, 'out'), 'utf8')]);
    assert.deepEqual(JSON.parse(text), JSON.parse(report));
    assert.equal((await finished(both)).code, 0);
    for (const [signal, ...args] of [
      ['SIGINT', 'validate', 'in'],
      ['SIGHUP', 'scan', '--baseline', 'in'],
    ] as const) {
      const waiting = start(t, args, { cwd });
      const writer = await open(join(cwd, 'in'), 'w');
      waiting.kill(signal);
      assert.deepEqual(await finished(waiting), { code: 130, stdout: '', stderr: '' }, args.join(' '));
      await writer.close();
    }
  });

  it('refuses to replace the file that is its standard input', async (t) => {
    const cwd = await project(t, {});
    const path = await writeJson(cwd, 'r.json', sampleReport([]));
    const input = await open(path);
    t.after(() => input.close());
    const program = [join(HOME, 'bin/toollint.ts'), 'convert', '-', '--to', 'sarif', '-o', path];
    const { status, stderr } = spawnSync(process.execPath, program, { stdio: [input.fd, 'pipe', 'pipe'] });
    assert.equal(status, 2);
    assert.match(String(stderr), /is read or written already/u);
  });

  it('writes the same bytes in any locale and time zone', { tags: ['long'] }, async (t) => {
    const cwd = await project(t, { 'İ.js': 'var a;\n', 'i.js': 'var b;\n', 'I.js': 'var b;\n' });
    const locales = [
      { LC_ALL: 'C', TZ: 'UTC' },
      { LC_ALL: 'tr_TR.UTF-8', LANG: 'tr_TR', TZ: 'Asia/Tokyo' },
    ];
    const run = (env: Record<string, string>) => finished(start(t, ['scan', '--deterministic'], { cwd, env }));
    const runs = await Promise.all(locales.map(run));
    assert.equal(runs[0]?.code, 1);
    assert.equal(runs[0].stdout, runs[1]?.stdout);
  });

  it('leaves no file and exits with 130 when it is interrupted', async (t) => {
    // The rule reports that the scan has started and makes it last long enough to be interrupted.
    const plugin = `{ slow: { create: () => ({ Program() { process.stderr.write('working\\n'); const end = Date.now() + 50; while (Date.now() < end); } }) } }`;
    const files = Object.fromEntries(Array.from({ length: 400 }, (_, index) => [`src/${index}.js`, 'x;\n']));
    const cwd = await project(t, { 'eslint.config.mjs': configText(`{ 'own/slow': 1 }`, plugin), ...files });
    const child = start(t, ['scan', 'src', '-o', 'out.json'], { cwd, env: { TMPDIR: cwd } });
    child.stderr.once('data', () => child.kill('SIGTERM'));
    await once(child, 'close');
    assert.deepEqual([child.exitCode, child.signalCode], [130, null]);
    assert.deepEqual(readdirSync(cwd).sort(), ['eslint.config.mjs', 'src']);
  });

  it("looks like ESLint's own program to plugins, whatever the folder, arguments and terminal", async (t) => {
    const asked = '[process.cwd(), process.argv.slice(1), process.env.TSESTREE_SINGLE_RUN]';
    const message = `\\u001b[31m\${JSON.stringify(${asked})}`;
    const plugin = `{ asks: { create: (context) => ({ Program(node) { context.report({ node, message: \`${message}\` }); } }) } }`;
    const cwd = await project(t, {
      'root/eslint.config.mjs': configText(`{ 'own/asks': 1 }`, plugin),
      'root/a.js': 'x;\n',
    });
    const env = { CI: '', FORCE_COLOR: '1' };
    const { stdout } = await finished(start(t, ['scan', '--root', 'root', '--ext', 'js'], { cwd, env }));
    const [finding] = (JSON.parse(stdout) as Report).findings;
    assert.deepEqual(JSON.parse(finding?.message ?? ''), ['.', ['node_modules/eslint/bin/eslint.js'], 'true']);
  });

  it('exits with 2 and writes nothing if a rule or a configuration ends it or never ends', async (t) => {
    const plugin = '{ ends: { create: () => process.exit(0) } }';
    const never = 'await new Promise(() => undefined);\n';
    for (const config of [configText(`{ 'own/ends': 1 }`, plugin), never, 'process.exit(0);\n']) {
      const cwd = await project(t, { 'eslint.config.mjs': config, 'a.js': 'x;\n' });
      const { code, stdout, stderr } = await finished(start(t, ['scan', 'a.js'], { cwd }));
      assert.deepEqual([code, stdout], [2, ''], config);
      assert.match(stderr, /toollint: a rule or a configuration ended the process, or waits forever\n/u);
    }
  });

  it('keeps the output of rules out of the document', async (t) => {
    const print = `console.log('hello'); process.stdout.write('raw');`;
    const plugin = `{ chatty: { create: () => ({ Program() { ${print} } }) } }`;
    const cwd = await project(t, { 'eslint.config.mjs': configText(`{ 'own/chatty': 1 }`, plugin), 'a.js': 'x;\n' });
    const { stdout, stderr, code } = await finished(start(t, ['scan', 'a.js'], { cwd }));
    assert.equal(code, 0);
    assert.ok(stdout.startsWith('{') && /hello[^]*raw/u.test(stderr));
  });
});
