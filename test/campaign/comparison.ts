// Compares the warehouse with the promise: each accepted event has one row, byte for byte, in the warehouse or in
// quarantine. No event has two rows, unless its id was reused with another body. Every row belongs to an event that
// was sent, and no answer was wrong.
import { setTimeout as delay } from 'node:timers/promises';
import type { StoredEntry, StoredEvent, WarehouseStore } from '../support/warehouse-store.ts';
import { bodyOf, idOf, numberOf } from './event.ts';
import { keptVariants, lies, takenAgain, takenForAnother } from './honesty.ts';
import { isAccepted, type Ledger, type Try } from './ledger.ts';

export interface Violation {
  readonly what: string;
  readonly number: number | undefined;
}

interface Row {
  readonly body: string;
  readonly producer: string;
  readonly quarantined: string | undefined;
}

/** Reading is retried for this long, because a server may still be recovering from a fault. */
const READ_WITHIN_MS = 60_000;

export async function compare(ledger: Ledger, store: WarehouseStore): Promise<readonly Violation[]> {
  const [events, quarantine] = await Promise.all([read(() => store.events()), read(() => store.quarantine())]);
  return [...strangers(ledger, events, quarantine), ...broken(ledger, rowsOf(events, quarantine))];
}

async function read<T>(rows: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + READ_WITHIN_MS;
  for (;;) {
    try {
      return await rows();
    } catch (cause) {
      if (performance.now() > deadline) throw cause;
      await delay(200);
    }
  }
}

function strangers(
  ledger: Ledger,
  events: readonly StoredEvent[],
  quarantine: readonly StoredEntry[],
): readonly Violation[] {
  const unknown = (id: string | null): boolean => {
    const number = id === null ? undefined : numberOf(id);
    return number === undefined || ledger.triesOf(number).length === 0;
  };
  return [
    ...events.filter(({ id }) => unknown(id)).map(({ id }) => `a row whose id was never sent: ${id.slice(0, 80)}`),
    ...quarantine
      .filter(({ id }) => unknown(id))
      .map(({ entry, reason }) => `a quarantine row of no event that was sent: ${entry}, ${reason}`),
  ].map((what) => ({ what, number: undefined }));
}

const rowsOf = (
  events: readonly StoredEvent[],
  quarantine: readonly StoredEntry[],
): ReadonlyMap<string | null, Row[]> =>
  Map.groupBy(
    [
      ...events.map((event) => ({ ...event, quarantined: undefined })),
      ...quarantine.map((row) => ({ ...row, body: String(row.body), quarantined: `${row.entry}, ${row.reason}` })),
    ],
    ({ id }) => id,
  );

function* broken(ledger: Ledger, stored: ReturnType<typeof rowsOf>): Generator<Violation> {
  for (const [number, tries] of ledger.events()) {
    const all = stored.get(idOf(number)) ?? [];
    const [own, others] = [all.filter((row) => !isOthers(row)), all.filter(isOthers)];
    const [rows, reused] = [own.filter((row) => !isReused(row)), own.filter(isReused)];
    for (const what of lies(tries)) yield { what, number };
    const taken = takenForAnother(tries);
    if (others.length > taken.length)
      yield { what: `rows of another producer that it has no right to: ${others.map(inWords).join('; ')}`, number };
    if (others.length === 0 && taken.some(({ answer }) => answer?.status === 202))
      yield { what: 'answered 202 to another producer, and there is no row', number };
    const accepted = isAccepted(tries);
    const [row] = rows;
    if (accepted && row === undefined) yield { what: 'answered 202, and there is no row', number };
    if (rows.length > 1) yield { what: `${rows.length} rows: ${rows.map(inWords).join('; ')}`, number };
    if (reused.length > takenAgain(tries).length)
      yield { what: `rows of an id that was not used again: ${reused.map(inWords).join('; ')}`, number };
    if (row === undefined) continue;
    for (const { variant } of tries.filter(isNew))
      if (!own.some(({ body }) => body === bodyOf(number, variant)))
        yield { what: `answered 202 as new, and no row has body ${variant}`, number };
    if (!row.producer.endsWith(':own')) yield { what: `the row is of producer ${row.producer}`, number };
    const kept = accepted ? keptVariants(tries) : new Set(tries.map(({ variant }) => variant));
    if (kept.size > 0 && ![...kept].some((variant) => bodyOf(number, variant) === row.body))
      yield { what: `the row is not, byte for byte, a body that it may be (${inWords(row)})`, number };
  }
}

const isNew = ({ producer, answer }: Try): boolean => producer === 'own' && answer?.status === 202 && !answer.duplicate;
const isOthers = ({ producer }: Row): boolean => producer.endsWith(':other');
const isReused = ({ quarantined }: Row): boolean => quarantined?.includes(', id_reused: ') === true;

const inWords = ({ quarantined, body }: Row): string =>
  `${quarantined === undefined ? 'warehouse' : `quarantine, ${quarantined}`}, ${body.length} characters`;
