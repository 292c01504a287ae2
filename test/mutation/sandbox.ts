// A copy of the project in which mutants replace files while tests run.
import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Mutant } from './mutants.ts';
import type { Reached } from './observe.ts';

export const ROOT = join(import.meta.dirname, '../..');
const HOOK = 'test/mutation/observe.ts';

export type Ending = 'passed' | 'failed' | 'timed out';

export interface Run {
  readonly ending: Ending;
  readonly seconds: number;
  readonly reached: Reached;
  readonly output: string;
}

export class Sandbox {
  readonly #folder = mkdtempSync(join(tmpdir(), 'mutation-'));
  readonly #originals = new Map<string, string>();

  constructor() {
    // PostgreSQL keeps its data in this folder and runs as another user.
    chmodSync(this.#folder, 0o711);
    const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT });
    for (const path of listed.toString().split('\0')) {
      if (path === '' || !existsSync(join(ROOT, path))) continue;
      mkdirSync(dirname(join(this.#folder, path)), { recursive: true });
      cpSync(join(ROOT, path), join(this.#folder, path));
    }
    symlinkSync(join(ROOT, 'node_modules'), join(this.#folder, 'node_modules'));
    mkdirSync(join(this.#folder, '.tmp'));
  }

  write(file: string, text: string): void {
    writeFileSync(join(this.#folder, file), text);
    this.#originals.set(file, text);
  }

  async run(testFile: string, timeoutMs: number, mutant?: Mutant): Promise<Run> {
    const reachedFolder = join(this.#folder, '.tmp/reached');
    rmSync(reachedFolder, { recursive: true, force: true });
    mkdirSync(reachedFolder);
    if (mutant?.text !== undefined) writeFileSync(join(this.#folder, mutant.file), mutant.text);
    const begun = performance.now();
    try {
      const { ending, output } = await this.#spawn(testFile, timeoutMs, {
        TMPDIR: join(this.#folder, '.tmp'),
        ...(mutant === undefined
          ? { MUTATION_REACHED: reachedFolder }
          : mutant.text === undefined && { __STRYKER_ACTIVE_MUTANT__: mutant.id }),
      });
      const threads = readdirSync(reachedFolder).map(
        (name) => JSON.parse(readFileSync(join(reachedFolder, name), 'utf8')) as Reached,
      );
      const reached: Reached = {
        mutants: threads.flatMap(({ mutants }) => mutants),
        scripts: threads.flatMap(({ scripts }) => scripts),
      };
      return { ending, output, reached, seconds: (performance.now() - begun) / 1_000 };
    } finally {
      const original = mutant?.text === undefined ? undefined : this.#originals.get(mutant.file);
      if (mutant !== undefined && original !== undefined) writeFileSync(join(this.#folder, mutant.file), original);
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #spawn(testFile: string, timeoutMs: number, env: NodeJS.ProcessEnv): Promise<{ ending: Ending; output: string }> {
    const flags = ['--disable-warning=ExperimentalWarning', '--import', `./${HOOK}`, `--test-reporter=./${HOOK}`];
    // The child leads a process group, so that a mutant that never exits is killed together with its servers.
    const child = spawn(process.execPath, [...flags, testFile], {
      cwd: this.#folder,
      detached: true,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-2_000)));
    return new Promise((resolve) => {
      const end = (): void => {
        try {
          process.kill(-(child.pid ?? 0), 'SIGKILL');
        } catch {
          // The process group has already exited.
        }
      };
      let timedOut = false;
      const timer = setTimeout(() => {
        timedOut = true;
        end();
      }, timeoutMs);
      child.once('exit', (code) => {
        clearTimeout(timer);
        end();
        resolve({ ending: timedOut ? 'timed out' : code === 0 ? 'passed' : 'failed', output });
      });
    });
  }
}
