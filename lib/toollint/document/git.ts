// Runs git on a repository that may not be trusted. Its configuration and attributes can name programs, and git would
// run them: a monitor of the file system, hooks, filters, and transports that fetch missing objects.
import { execFileSync, spawnSync } from 'node:child_process';
import { errnoOf, messageOf, oneLine, ReportFailure } from './failure.ts';

const OUTPUT_BYTES_MAX = 512 << 20;

const SETTINGS = [
  ...['core.quotePath=false', 'diff.interHunkContext=0', 'core.fsmonitor=false', 'core.hooksPath=/dev/null'],
  ...['core.attributesFile=/dev/null', 'protocol.allow=never'],
];

export function git(cwd: string, args: readonly string[]): string {
  return run(cwd, args, [...SETTINGS, ...overridesFor(cwd)]);
}

/** Returns paths that are relative to the folder. */
export const trackedFiles = (folder: string) => new Set(git(folder, ['ls-files', '-z']).split('\0'));

/** Attributes in several places choose a filter, so the filters are emptied instead. An empty command does not run. */
function overridesFor(cwd: string): string[] {
  const names = run(cwd, ['config', '--list', '--name-only', '-z'], SETTINGS).split('\0');
  const drivers = new Set(names.flatMap((name) => /^(filter\..+)\.[^.]+$/su.exec(name)?.[1] ?? []));
  const off = ['clean=', 'smudge=', 'process=', 'required=false'];
  const protocols = names.filter((name) => /^protocol\..+\.allow$/su.test(name)).map((name) => `${name}=never`);
  // `-c` ends a name at the first '='.
  const odd = [...drivers, ...protocols].find((name) => name.replace(/=never$/u, '').includes('='));
  if (odd !== undefined) throw new ReportFailure('usage', `git: the name ${odd} in its configuration has a '='`);
  return [...[...drivers].flatMap((driver) => off.map((setting) => `${driver}.${setting}`)), ...protocols];
}

function run(cwd: string, args: readonly string[], settings: readonly string[]): string {
  const options = ['--no-pager', '--no-optional-locks', ...settings.flatMap((setting) => ['-c', setting])];
  try {
    return execFileSync('git', [...options, ...args], {
      ...{ cwd, env: environment(cwd), maxBuffer: OUTPUT_BYTES_MAX, encoding: 'utf8' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (cause) {
    const said: unknown = cause instanceof Error && 'stderr' in cause ? cause.stderr : undefined;
    const fault = errnoOf(cause) === 'ENOENT' ? 'git is not installed, or the folder does not exist' : messageOf(cause);
    const reason = typeof said === 'string' && said !== '' ? oneLine(said) : fault;
    throw new ReportFailure('usage', `git ${args[0] ?? ''}: ${reason}`, cause);
  }
}

/**
 * git prefers GIT_DIFF_OPTS to --unified. The hooks of a linked working tree have GIT_DIR alone, and git then regards
 * the current folder as the top of the working tree.
 */
function environment(cwd: string): NodeJS.ProcessEnv {
  // eslint-disable-next-line no-restricted-properties -- git inherits the environment
  const all: NodeJS.ProcessEnv = { ...process.env, GIT_DIFF_OPTS: '', LC_ALL: 'C' };
  const { GIT_DIR: folder, ...rest } = all;
  if (folder === undefined || rest['GIT_WORK_TREE'] !== undefined) return all;
  const { status } = spawnSync('git', ['rev-parse', '--git-dir'], { cwd, env: rest, stdio: 'ignore' });
  return status === 0 ? rest : all;
}
