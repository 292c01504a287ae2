// Parses the command line of ingest-admin and runs the command.
import { parseArgs } from 'node:util';
import { messageOf } from '../process/message-of.ts';
import { settingsHelp } from '../process/settings-text.ts';
import { isEventId } from '../ingest/event.ts';
import { PRUNE_AGE_MS_MIN, type Pruning } from '../ingest/warehouse.ts';
import type { QuarantineFilter } from '../ingest/warehouse-admin.ts';
import { BOTH_SIDES, type Uses } from './config.ts';
import { showStatus } from './status.ts';
import { eraseEvents, idsOf } from './erase.ts';
import { showEvent } from './event.ts';
import { pruneRows } from './prune.ts';
import { dropRows, LIST_MAX, listRows, showRow, type Selection } from './quarantine.ts';
import { replayRows } from './replay.ts';
import { reconcile } from './reconcile.ts';
import { trySchema } from './schema-try.ts';
import { tailEvents, type Tailing } from './tail.ts';
import { UsageError, type Result, type Session } from './session.ts';

export const HELP = `ingest-admin: inspects and repairs the queue and the warehouse.

Usage: ingest-admin [options] COMMAND
  status               size of the queue, progress of landing, replicas, and the quarantine by reason. With the URI of
                       only the queue or only the warehouse, it shows that one
  tail [--type T] [--producer P] [-n N] [--follow] [--bodies]
                       events as they reach the queue, one on each line: time, producer, type, id, bytes;
                       T and P may contain *;
                       -n N: the last N, then exit unless --follow; --bodies: with their bodies, which is recorded
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
                       overwrites the bodies of events in queue, warehouse and quarantine with
                       {"id":...,"type":...,"erased":true}; ids and rows stay. --file: one id on each line; "-" reads
                       standard input
  prune --older-than T [--type T | --quarantine]
                       deletes events that landed before T, of one type or of all; --quarantine: quarantine rows
                       instead. T is at least 48h; events newer than the oldest unlanded event stay
  reconcile [--land] [--rate N] [--metrics FILE]
                       compares the queue's entries (the last 24 hours, and all that has not landed) with the warehouse:
                       per hour and producer, how many landed, are quarantined, erased, waiting to land, or missing.
                       Exits with 1 if an event is missing, or if an erased event has a body again.
                       --land: lands what is missing and erases such bodies; --rate: entries per second (default: 10000);
                       --metrics: writes the result to a file for node_exporter's textfile collector
  schema try TYPE.json [--since T]
                       landed events of the type TYPE since T (default: 24h) that the schema would refuse

  --json               output for programs: one JSON value (tail: one on each line)
  --yes                does not ask before a change; each change is a line on standard error and a row of ingest_audit
  --reason R           rows whose reason has this code, e.g. id_conflict
  --since T            rows or entries from T (2026-01-31T12:00:00Z) or later, or from the last 30m, 12h, 7d
  --limit N            at most N rows, up to ${LIST_MAX}
  --help, --version

${settingsHelp('admin')}
Exit codes: 0 done, 1 nothing found or not everything done, 2 usage or configuration, 4 queue, 5 warehouse.
`;

export interface CommandLine {
  readonly json: boolean;
  readonly yes: boolean;
  /** True if the command writes to the queue, and so creates the queue's metadata if it is missing. */
  readonly changesQueue: boolean;
  readonly uses: Uses;
  /** Rejects with QueueFailed if the queue is unavailable, or with WarehouseFailed if the warehouse is. */
  readonly run: Run;
}

type Run = (session: Session) => Promise<Result>;

const LIST_LIMIT = 50;
const TAIL_MAX = 10_000;
const SCHEMA_FILE = /(^|\/)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.json$/;
const DURATION_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

const OPTIONS = {
  json: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  all: { type: 'boolean', default: false },
  n: { type: 'string', short: 'n' },
  producer: { type: 'string' },
  follow: { type: 'boolean', default: false },
  bodies: { type: 'boolean', default: false },
  reason: { type: 'string' },
  since: { type: 'string' },
  limit: { type: 'string' },
  file: { type: 'string' },
  'older-than': { type: 'string' },
  type: { type: 'string' },
  quarantine: { type: 'boolean', default: false },
  land: { type: 'boolean', default: false },
  rate: { type: 'string' },
  metrics: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
  version: { type: 'boolean', short: 'V', default: false },
} as const;

type Values = ReturnType<typeof parsed>['values'];

interface Given {
  readonly operands: readonly string[];
  readonly values: Values;
  readonly nowMs: number;
}

interface Command {
  /** Describes the operand of a command that has exactly one. A command without `operand` and `operands` has none. */
  readonly operand?: string;
  readonly operands?: true;
  /** Options besides --json and --yes. */
  readonly options?: readonly string[];
  readonly changesQueue?: true;
  /** BOTH_SIDES, unless set. */
  readonly uses?: Uses | ((values: Values) => Uses);
  /** Throws a UsageError if the arguments are invalid. */
  readonly read: (given: Given) => Run;
}

const QUEUE: Uses = { sides: ['queue'] };
const WAREHOUSE: Uses = { sides: ['warehouse'] };

const COMMANDS = new Map(
  Object.entries<Command>({
    status: { uses: { ...BOTH_SIDES, either: true }, read: () => showStatus },
    tail: {
      // Reading bodies is recorded in the warehouse.
      uses: ({ bodies }) => (bodies ? BOTH_SIDES : QUEUE),
      options: ['type', 'producer', 'n', 'follow', 'bodies'],
      read: ({ values }) => running(tailEvents, tailingOf(values)),
    },
    event: { operand: 'an event id', read: ({ operands }) => running(showEvent, eventId(operands[0])) },
    erase: { operands: true, options: ['file'], changesQueue: true, read: erasing },
    prune: {
      options: ['older-than', 'type', 'quarantine'],
      read: ({ values, nowMs }) => running(pruneRows, pruningOf(values, nowMs)),
    },
    reconcile: {
      options: ['land', 'rate', 'metrics'],
      read: ({ values: { land, rate, metrics } }) => running(reconcile, { land, rate: rateOf(rate), metrics }),
    },
    'schema try': { uses: WAREHOUSE, operand: 'the file of a schema', options: ['since'], read: trying },
    'quarantine list': {
      uses: WAREHOUSE,
      options: ['reason', 'since', 'limit'],
      read: ({ values, nowMs }) => running(listRows, filterOf(values, nowMs), limitOf(values.limit)),
    },
    'quarantine show': {
      uses: WAREHOUSE,
      operand: 'the name of an entry',
      read: ({ operands: [entry = ''] }) => running(showRow, entry),
    },
    'quarantine replay': {
      operands: true,
      options: ['reason', 'since', 'all'],
      changesQueue: true,
      read: (given) => running(replayRows, selectionOf(given)),
    },
    'quarantine drop': {
      uses: WAREHOUSE,
      operands: true,
      options: ['reason', 'since', 'all'],
      read: (given) => running(dropRows, selectionOf(given)),
    },
  }),
);

const running =
  <T extends readonly unknown[]>(command: (session: Session, ...given: T) => Promise<Result>, ...given: T): Run =>
  (session) =>
    command(session, ...given);

/** Throws a UsageError if the arguments are invalid. `nowMs` is Unix time. */
export function readCommandLine(args: readonly string[], nowMs: number): CommandLine | 'help' | 'version' {
  const { values, positionals } = parsed(args);
  if (values.help) return 'help';
  if (values.version) return 'version';
  const { command, operands } = commandOf(positionals);
  if (command.operand !== undefined && operands.length !== 1) throw new UsageError(`expected ${command.operand}`);
  if (command.operand === undefined && command.operands === undefined && operands.length > 0)
    throw new UsageError(`unexpected argument ${operands[0]}`);
  const run = command.read({ operands, values, nowMs });
  for (const [name, value] of Object.entries(values))
    if (value !== undefined && value !== false && !['json', 'yes', ...(command.options ?? [])].includes(name))
      throw new UsageError(`--${name} has no meaning for this command`);
  const { uses = BOTH_SIDES, changesQueue = false } = command;
  return {
    json: values.json,
    yes: values.yes,
    changesQueue,
    uses: typeof uses === 'function' ? uses(values) : uses,
    run,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS });
  } catch (cause) {
    throw new UsageError(messageOf(cause), { cause });
  }
}

/** Finds the command that one or two words name. */
function commandOf([first, second, ...rest]: readonly string[]): Pick<Given, 'operands'> & { command: Command } {
  if (first === undefined) throw new UsageError('expected a command');
  const single = COMMANDS.get(first);
  if (single !== undefined) return { command: single, operands: [second ?? [], rest].flat() };
  const double = COMMANDS.get(`${first} ${second}`);
  if (double !== undefined) return { command: double, operands: rest };
  if (first === 'quarantine') throw new UsageError('expected quarantine list, show, replay or drop');
  throw new UsageError(first === 'schema' ? 'expected schema try' : `unknown command ${first}`);
}

function trying({ operands: [path = ''], values: { since }, nowMs }: Given): Run {
  if (!SCHEMA_FILE.test(path)) throw new UsageError('expected the file of a schema, <type>.json');
  return running(trySchema, path, timeOf('since', since ?? '24h', nowMs));
}

function erasing({ operands, values: { file } }: Given): Run {
  if ((file === undefined) === (operands.length === 0)) throw new UsageError('expected either event ids, or --file F');
  const ids = [...new Set(operands.map(eventId))];
  return async (session) => eraseEvents(session, file === undefined ? ids : await idsOf(file));
}

function selectionOf({ operands, values, nowMs }: Given): Selection {
  const filtered = values.reason !== undefined || values.all;
  if (operands.length > 0) {
    if (filtered || values.since !== undefined)
      throw new UsageError('expected either names of entries, or --reason or --all');
    return { kind: 'entries', entries: [...new Set(operands)] };
  }
  if (!filtered) throw new UsageError('expected names of entries, --reason R, or --all');
  return { kind: 'filter', filter: filterOf(values, nowMs) };
}

const filterOf = ({ reason, since }: Values, nowMs: number): QuarantineFilter => ({
  reason,
  sinceMs: since === undefined ? undefined : timeOf('since', since, nowMs),
});

function pruningOf({ 'older-than': age, type, quarantine }: Values, nowMs: number): Pruning {
  if (age === undefined) throw new UsageError('expected --older-than T');
  if (quarantine && type !== undefined) throw new UsageError('expected either --type or --quarantine');
  const beforeMs = timeOf('older-than', age, nowMs);
  if (nowMs - beforeMs < PRUNE_AGE_MS_MIN) throw new UsageError(`--older-than ${age}: expected at least 48h`);
  return { table: quarantine ? 'quarantine' : 'events', beforeMs, type };
}

function tailingOf({ type, producer, n, follow, bodies }: Values): Tailing {
  const last = n === undefined ? undefined : Number(n);
  if (last !== undefined && !(Number.isInteger(last) && last >= 1 && last <= TAIL_MAX))
    throw new UsageError(`-n ${n}: expected a whole number from 1 to ${TAIL_MAX}`);
  return { type, producer, last, follow: follow || last === undefined, bodies };
}

function timeOf(option: string, text: string, nowMs: number): number {
  const ago = /^(\d{1,6})([smhd])$/.exec(text);
  if (ago !== null) return nowMs - Number(ago[1]) * DURATION_MS[ago[2] as keyof typeof DURATION_MS];
  const time = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(time))
    throw new UsageError(`--${option} ${text}: expected a time as 2026-01-31T12:00:00Z, a date, or 30m, 12h, 7d`);
  return time;
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return LIST_LIMIT;
  const number = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > LIST_MAX)
    throw new UsageError(`--limit ${text}: expected a whole number from 1 to ${LIST_MAX}`);
  return number;
}

function rateOf(text = '10000'): number {
  const rate = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (rate < 1) throw new UsageError(`--rate ${text}: expected a whole number of entries per second`);
  return rate;
}

function eventId(text: string | undefined): string {
  if (!isEventId(text))
    throw new UsageError('invalid event id: expected 1 to 256 characters and no control characters');
  return text;
}
