// Parses the command line of ingest-admin and runs the command.
import { parseArgs } from 'node:util';
import { messageOf } from '../process/message-of.ts';
import { firstSettingsHelp, settingsHelp } from '../process/settings-help.ts';
import { isEventId } from '../ingest/event.ts';
import { PRUNE_AGE_MS_MIN, type Pruning } from '../ingest/warehouse.ts';
import type { QuarantineFilter } from '../ingest/warehouse-admin.ts';
import { BOTH_SIDES, type Uses } from './config.ts';
import { showStatus } from './status.ts';
import { eraseEvents } from './erase.ts';
import { showEvent } from './event.ts';
import { pruneRows } from './prune.ts';
import { dropRows, LIST_MAX, listRows, showRow, type Selection } from './quarantine.ts';
import { replayRows } from './replay.ts';
import { reconcile } from './reconcile.ts';
import { trySchema } from './schema-try.ts';
import { tailEvents } from './tail.ts';
import { UsageError, type Session } from './session.ts';
import { timeText } from './terminal.ts';

const EXITS = `Exit codes: 0 done, 1 nothing found or not everything done, 2 usage or configuration, 4 queue, 5 warehouse,
6 status: something needs attention.
`;

/** The commands. A command accepts the operands and options that its usage names, besides --json and --yes. */
const COMMANDS_HELP = `\
  status               queue, landing, replicas, and the quarantine by reason; one side if only its URI is set.
                       Exits with 6 if both answer, but events wait without a consumer or for more than five minutes,
                       or too few replicas acknowledge
  tail [--type T] [--producer P] [-n N] [--follow] [--bodies]
                       events as they reach the queue, one on each line: time, producer, type, id, bytes; T and P may
                       contain *. -n N: the last N, then exit unless --follow; --bodies: with bodies, which is recorded
  event ID             one event in queue, warehouse and quarantine, of any producer
  quarantine list [--reason R] [--since T] [--limit N]
                       quarantine rows, the newest first (default: 50)
  quarantine show ENTRY
                       one row with its body, as hex if it is not text
  quarantine replay (ENTRY... | --reason R | --all) [--since T]
                       puts the same bytes back on the queue with producer and time of acceptance, and waits until
                       they have landed. A row stays until then. After an interruption, run it again
  quarantine drop (ENTRY... | --reason R | --all) [--since T]
                       deletes rows and prints how many
  erase (ID... | --file F)
                       overwrites bodies in queue, warehouse and quarantine with {"id":...,"type":...,"erased":true};
                       ids and rows stay. --file: one id on each line; "-" reads standard input
  prune --older-than T [--type T | --quarantine]
                       deletes events that landed before T, of one type or of all; --quarantine: quarantine rows
                       instead. T is at least 48h; events newer than the oldest unlanded event stay
  reconcile [--land] [--rate N] [--metrics FILE]
                       compares the queue's entries (the last 24 hours, and all that has not landed) with the warehouse:
                       per hour and producer, how many landed, are quarantined, erased, waiting to land, or missing.
                       Exits with 1 if an event is missing, or if an erased event has a body again.
                       --land: lands what is missing, erases such bodies; --rate: entries per second (default: 10000);
                       --metrics: writes the result to a file for node_exporter's textfile collector
  schema try TYPE.json [--since T]
                       landed events of the type TYPE since T (default: 24h) that the schema would refuse, and events
                       that a schema has sent to quarantine since T and that would land now
`;

const fullHelp = (): string => `ingest-admin: inspects and repairs the queue and the warehouse.

Usage: ingest-admin [options] COMMAND
${COMMANDS_HELP}
  --json               output for programs: one JSON value (tail: one on each line)
  --yes                does not ask before a change; each change is a line on standard error and a row of ingest_audit
  --reason R           rows whose reason has this code, e.g. id_conflict
  --since T            rows or entries from T (2026-01-31T12:00:00Z) or later, or from the last 30m, 12h, 7d
  --limit N            at most N rows, up to ${LIST_MAX}
  --help, --help=all, --version

${settingsHelp('admin')}
${EXITS}`;

const shortHelp = (): string => `ingest-admin: inspects and repairs the queue and the warehouse.

  ingest-admin status                          queue, landing, replicas, quarantine
  ingest-admin reconcile [--land]              which accepted events have no row; --land lands them
  ingest-admin event ID                        one event in queue, warehouse and quarantine
  ingest-admin tail [--follow]                 events as they reach the queue
  ingest-admin quarantine list|show|replay|drop
  ingest-admin erase ID...                     overwrites the bodies of events
  ingest-admin prune --older-than T            deletes old rows
  ingest-admin schema try TYPE.json            what a schema would refuse
  ingest-admin --help=all                      all commands, options and settings

--json prints JSON. --yes does not ask before a change.

${firstSettingsHelp('admin')}
${EXITS}`;

export const help = (all: boolean): string => (all ? fullHelp() : shortHelp());

export interface CommandLine {
  readonly json: boolean;
  readonly yes: boolean;
  /** True if the command writes to the queue, and so creates the queue's metadata if it is missing. */
  readonly changesQueue: boolean;
  readonly uses: Uses;
  readonly run: Run;
}

/**
 * Resolves with false if nothing was found, or not everything was done. Rejects with QueueFailed if the queue is
 * unavailable, or with WarehouseFailed if the warehouse is.
 */
type Run = (session: Session) => Promise<boolean>;

const TAIL_MAX = 10_000;
const RATE_MAX = 999_999_999;
const SCHEMA_FILE = /(^|\/)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.json$/;
const DURATION_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const FLAG = { type: 'boolean', default: false } as const;
const TEXT = { type: 'string' } as const;
const OPTIONS = {
  ...{ json: FLAG, yes: FLAG, all: FLAG, follow: FLAG, bodies: FLAG, quarantine: FLAG, land: FLAG },
  ...{ producer: TEXT, type: TEXT, reason: TEXT, since: TEXT, limit: TEXT, file: TEXT, 'older-than': TEXT },
  ...{ rate: TEXT, metrics: TEXT, n: { ...TEXT, short: 'n' } },
  ...{ help: { ...FLAG, short: 'h' }, version: { ...FLAG, short: 'V' } },
} as const;

type Values = ReturnType<typeof parsed>['values'];

interface Given {
  readonly operands: readonly string[];
  readonly values: Values;
  readonly nowMs: number;
}

interface Command {
  readonly changesQueue?: true;
  /** BOTH_SIDES, unless set. */
  readonly uses?: Uses | ((values: Values) => Uses);
  /** Returns `undefined` if the arguments do not fit the usage. Throws a UsageError if a value is invalid. */
  readonly read: (given: Given) => Run | undefined;
}

const WAREHOUSE: Uses = { sides: ['warehouse'] };

const COMMANDS: Readonly<Record<string, Command>> = {
  status: { uses: { ...BOTH_SIDES, either: true }, read: () => showStatus },
  tail: {
    // Reading bodies is recorded in the warehouse.
    uses: ({ bodies }) => (bodies ? BOTH_SIDES : { sides: ['queue'] }),
    read: ({ values: { type, producer, n, follow, bodies } }) => {
      const last = n === undefined ? undefined : wholeNumber('-n', n, TAIL_MAX);
      return running(tailEvents, { type, producer, last, follow: follow || last === undefined, bodies });
    },
  },
  event: { read: ({ operands: [id = ''] }) => running(showEvent, eventId(id)) },
  erase: {
    changesQueue: true,
    read: ({ operands, values: { file } }) => {
      if (file !== undefined) return running(eraseEvents, operands.length === 0 ? file : undefined);
      return running(eraseEvents, operands.length > 0 ? [...new Set(operands.map(eventId))] : undefined);
    },
  },
  prune: { read: (given) => running(pruneRows, pruningOf(given)) },
  reconcile: {
    read: ({ values: { land, rate = '10000', metrics } }) =>
      running(reconcile, { land, rate: wholeNumber('--rate', rate, RATE_MAX), metrics }),
  },
  'schema try': {
    uses: WAREHOUSE,
    read: ({ operands: [path = ''], values: { since = '24h' }, nowMs }) =>
      running(trySchema, SCHEMA_FILE.test(path) ? { path, sinceMs: timeOf('since', since, nowMs) } : undefined),
  },
  'quarantine list': {
    uses: WAREHOUSE,
    read: (given) =>
      running(listRows, { ...filterOf(given), limit: wholeNumber('--limit', given.values.limit ?? '50', LIST_MAX) }),
  },
  'quarantine show': { uses: WAREHOUSE, read: ({ operands: [entry = ''] }) => running(showRow, entry) },
  'quarantine replay': { changesQueue: true, read: (given) => running(replayRows, selectionOf(given)) },
  'quarantine drop': { uses: WAREHOUSE, read: (given) => running(dropRows, selectionOf(given)) },
};

const running = <T>(
  command: (session: Session, given: T) => Promise<boolean>,
  given: T | undefined,
): Run | undefined => (given === undefined ? undefined : (session) => command(session, given));

/** Throws a UsageError if the arguments are invalid. `nowMs` is Unix time. */
export function readCommandLine(args: readonly string[], nowMs: number): CommandLine | 'help' | 'help=all' | 'version' {
  if (args.includes('--help=all')) return 'help=all';
  const { values, positionals } = parsed(args);
  if (values.help) return 'help';
  if (values.version) return 'version';
  const name = [1, 2]
    .map((count) => positionals.slice(0, count).join(' '))
    .find((words) => Object.hasOwn(COMMANDS, words));
  const { read, uses = BOTH_SIDES, changesQueue = false } = COMMANDS[name ?? ''] ?? {};
  if (name === undefined || read === undefined)
    throw new UsageError(positionals.length === 0 ? 'expected a command' : `unknown command ${positionals.join(' ')}`);
  const [, usage = ''] = new RegExp(`^  ${name}( \\S.*?)?(?:  |$)`, 'm').exec(COMMANDS_HELP) ?? [];
  const operands = positionals.slice(name.split(' ').length);
  const { json, yes, ...others } = values;
  const isKnown = Object.entries(others).every(
    ([option, value]) => value === undefined || value === false || new RegExp(`-${option}\\b`).test(usage),
  );
  const isCounted = usage.includes('...') || operands.length === (/^ [A-Z]/.test(usage) ? 1 : 0);
  const run = isKnown && isCounted ? read({ operands, values, nowMs }) : undefined;
  if (run === undefined) throw new UsageError(`expected ${name}${usage}`);
  return { json, yes, changesQueue, uses: typeof uses === 'function' ? uses(values) : uses, run };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS });
  } catch (cause) {
    throw new UsageError(messageOf(cause), { cause });
  }
}

/** Returns `undefined` unless either entries, or a filter or --all are given. */
function selectionOf(given: Given): Selection | undefined {
  const { operands, values } = given;
  const named = operands.length > 0;
  if (named === (values.reason !== undefined || values.all) || (named && values.since !== undefined)) return undefined;
  return { entries: named ? [...new Set(operands)] : undefined, ...filterOf(given) };
}

const filterOf = ({ values: { reason, since }, nowMs }: Given): QuarantineFilter => ({
  reason,
  sinceMs: since === undefined ? undefined : timeOf('since', since, nowMs),
});

function pruningOf({ values: { 'older-than': age, type, quarantine }, nowMs }: Given): Pruning | undefined {
  if (age === undefined || (quarantine && type !== undefined)) return undefined;
  const beforeMs = timeOf('older-than', age, nowMs);
  if (nowMs - beforeMs < PRUNE_AGE_MS_MIN) throw new UsageError(`--older-than ${age}: expected at least 48h`);
  return { table: quarantine ? 'quarantine' : 'events', beforeMs, type };
}

function timeOf(option: string, text: string, nowMs: number): number {
  const [, count, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) return nowMs - Number(count) * (DURATION_MS[unit] ?? 0);
  const date = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.exec(text)?.[1] ?? '';
  const time = Date.parse(text);
  // Date.parse moves 30 February to March.
  if (date === '' || Number.isNaN(time) || !timeText(Date.parse(date)).startsWith(date))
    throw new UsageError(`--${option} ${text}: expected a time as 2026-01-31T12:00:00Z, a date, or 30m, 12h, 7d`);
  return time;
}

function wholeNumber(option: string, text: string, max: number): number {
  const number = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > max) throw new UsageError(`${option} ${text}: expected a whole number from 1 to ${max}`);
  return number;
}

function eventId(text: string): string {
  if (!isEventId(text))
    throw new UsageError('invalid event id: expected 1 to 256 characters and no control characters');
  return text;
}
