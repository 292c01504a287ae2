// The program: takes arguments and returns an exit code. Standard output receives only documents. Everything else
// goes to standard error, one line each.
import { readFileSync } from 'node:fs';
import { Interrupted, messageOf, ReportFailure, usageFailure } from '../document/failure.ts';
import { TOOL_NAME, TOOL_VERSION } from '../document/report-format.ts';
import { note, OutputClosed, type ProgramIo, streamSink } from './program-io.ts';
import { EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_OUTPUT_CLOSED } from './verdict.ts';

type Verb = (args: readonly string[], io: ProgramIo) => Promise<number>;

/** Verbs are loaded on demand, because loading ESLint and the schema library takes most of the startup time. */
const VERBS = new Map<string, () => Promise<Verb>>([
  ['scan', async () => (await import('./scan.ts')).runScan],
  ['import', async () => (await import('./import.ts')).runImport],
  ['compare', async () => (await import('./compare.ts')).runCompare],
  ['explain', async () => (await import('./explain.ts')).runExplain],
  ['convert', async () => (await import('./documents.ts')).runConvert],
  ['merge', async () => (await import('./documents.ts')).runMerge],
  ['validate', async () => (await import('./documents.ts')).runValidate],
  ['schema', async () => (await import('./documents.ts')).runSchema],
]);

export async function runToollint(io: ProgramIo): Promise<number> {
  try {
    return await dispatch(io);
  } catch (cause) {
    if (cause instanceof OutputClosed) return EXIT_OUTPUT_CLOSED;
    if (cause instanceof Interrupted || io.signal.aborted) return EXIT_INTERRUPTED;
    note(io, cause instanceof ReportFailure ? cause.message : `internal error: ${messageOf(cause)}`);
    return EXIT_FAILURE;
  }
}

async function dispatch(io: ProgramIo): Promise<number> {
  const [name = '', ...args] = io.args;
  const print = async (text: string) => {
    await streamSink(io.stdout, 'standard output')(text);
    return EXIT_OK;
  };
  if (name === '--version' || name === '-V') return print(`${TOOL_NAME} ${TOOL_VERSION} (${io.revision()})\n`);
  const verb = VERBS.get(name);
  const flags = verb === undefined ? [name] : args.slice(0, [...args, '--'].indexOf('--'));
  const isAll = flags.includes('--help=all');
  if (isAll || name === 'help' || flags.includes('--help') || flags.includes('-h'))
    return print(readFileSync(new URL(isAll ? 'help-all.txt' : 'help.txt', import.meta.url), 'utf8'));
  if (verb !== undefined) return (await verb())(args, io);
  const names = [...VERBS.keys()].join(', ');
  throw usageFailure(`${name === '' ? 'a verb is needed' : `unknown verb '${name}'`}: ${names}; see toollint --help`);
}
