// The result of `reconcile`: counts per hour of acceptance and producer, as a table, as JSON, and as a metrics file.
import { realpath, rename, stat, writeFile } from 'node:fs/promises';
import type { QueuedCopy } from '../ingest/queue-admin.ts';
import { messageOf } from '../process/message-of.ts';
import { printable } from '../process/printable.ts';
import { printResult, UsageError, type Session } from './session.ts';
import { counted, countText, table, timeText } from './terminal.ts';

const COLUMNS = ['entries', 'landed', 'quarantined', 'erased', 'waiting', 'missing'] as const;
type Counts = Record<(typeof COLUMNS)[number], number>;
/** The place of an event. `erased` includes events whose quarantine row was dropped. */
export type EventPlace = Exclude<keyof Counts, 'entries'>;

const LISTED_MAX = 1_000;
const SHOWN_MAX = 20;

type Row = Counts & { readonly hour: string; readonly producer: string };

const noCounts = (): Counts => ({ entries: 0, landed: 0, quarantined: 0, erased: 0, waiting: 0, missing: 0 });

export class Report {
  readonly sum = noCounts();
  /** Number of missing events that have landed by now. */
  filled = 0;
  /** Number of events that are pending again and have not landed. */
  left = 0;
  /** The ids of erased events whose bodies were back in the queue or the warehouse. */
  readonly back = new Set<string>();
  /** Number of bodies that are still back. A consumer may hold an entry. */
  bodiesLeft = 0;
  readonly #rows = new Map<string, Row>();
  readonly #missing: (Pick<QueuedCopy, 'stream' | 'entry' | 'id'> & { readonly producer: string })[] = [];

  add({ stream, entry, id, producer = '', acceptedAtMs }: QueuedCopy, place: EventPlace): void {
    const hour = timeText(acceptedAtMs).replace(/:.*/, ':00:00.000Z');
    const key = `${hour} ${producer}`;
    const row = this.#rows.get(key) ?? { hour, producer, ...noCounts() };
    this.#rows.set(key, row);
    for (const counts of [row, this.sum]) {
      counts.entries += 1;
      counts[place] += 1;
    }
    if (place === 'missing' && this.#missing.length < LISTED_MAX) this.#missing.push({ stream, entry, id, producer });
  }

  get isGood(): boolean {
    return this.sum.missing === this.filled && this.bodiesLeft === 0;
  }

  /** `land`: missing events were landed, and bodies that were back were erased again. */
  print(session: Session, land: boolean): void {
    const { sum, filled, bodiesLeft } = this;
    const bodiesBack = this.back.size;
    const hours = [...this.#rows.values()].toSorted((one, other) => (one.hour < other.hour ? -1 : 1));
    const value = { ...sum, ...(land && { filled }), bodiesBack, hours, missingEvents: this.#missing };
    const cells = (counts: Counts): string[] => COLUMNS.map((name) => countText(counts[name]));
    const rows = hours.map((row) => [`${row.hour.slice(0, 16)}Z`, printable(row.producer), ...cells(row)]);
    const all = [['hour', 'producer', ...COLUMNS], ...rows, ['all', '', ...cells(sum)]];
    const lines = table(all, [2, 3, 4, 5, 6, 7]);
    for (const { stream, entry, id, producer } of this.#missing.slice(0, SHOWN_MAX))
      lines.push(`missing: ${stream} ${entry} of ${printable(producer)}: ${printable(id ?? '(no id)')}`);
    if (sum.missing > SHOWN_MAX) lines.push(`and ${countText(sum.missing - SHOWN_MAX)} more`);
    // An erasure that was interrupted is recorded, too.
    if (bodiesBack > 0) lines.push(`${counted(bodiesBack, 'event')} had a body although its erasure is recorded`);
    if (land && bodiesLeft > 0) lines.push(`${counted(bodiesLeft, 'body', 'bodies')} held by a consumer`);
    if (land) lines.push(`${countText(filled)} of ${counted(sum.missing, 'missing event')} landed`);
    printResult(session, value, `${lines.join('\n')}\n`);
  }

  metrics(nowMs: number): string {
    const { sum, filled } = this;
    const counts = { ...sum, landed: sum.landed + filled, missing: sum.missing - filled };
    return `# HELP ingest_reconcile_events Events on the queue, by their place, when ingest-admin reconcile ended.
# TYPE ingest_reconcile_events gauge
${COLUMNS.slice(1)
  .map((place) => `ingest_reconcile_events{place="${place}"} ${counts[place]}\n`)
  .join('')}\
# HELP ingest_reconcile_bodies_back Erased events that have a body again.
# TYPE ingest_reconcile_bodies_back gauge
ingest_reconcile_bodies_back ${this.bodiesLeft}
# HELP ingest_reconcile_end_timestamp_seconds Unix time at which ingest-admin reconcile ended.
# TYPE ingest_reconcile_end_timestamp_seconds gauge
ingest_reconcile_end_timestamp_seconds ${(nowMs / 1_000).toFixed(3)}
`;
  }
}

/** Replaces the file in one step, because node_exporter may read it at any time. Replaces no link and no device. */
export async function writeMetrics(path: string, text: string): Promise<void> {
  try {
    const place = await realpath(path).catch(() => path);
    if ((await stat(place).catch(() => undefined))?.isFile() === false) throw new Error('expected a regular file');
    await writeFile(`${place}.${process.pid}`, text, { flush: true, mode: 0o644 });
    await rename(`${place}.${process.pid}`, place);
  } catch (cause) {
    throw new UsageError(`--metrics ${path}: ${messageOf(cause)}`, { cause });
  }
}
