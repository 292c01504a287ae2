// Runs a producer with a journal, which is killed and restarted. After a restart the producer first sends the events
// in its journal. Every event that was in the journal must have a row. An event that the producer had not finished
// writing to the journal may have a row.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JournalOptions } from '../../lib/send/client.ts';
import { TestProcess } from '../support/gateway.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { readNotes, type JournaledSettings } from './journal-notes.ts';
import type { History, Ledger } from './ledger.ts';
import { Service } from './restarted-program.ts';

const EVENTS_A_SECOND = 50;
const TRIES = 1_000_000;
const PROGRAM = new URL('journaling-producer.ts', import.meta.url).pathname;
const ACCEPTED = { status: 202, code: undefined, duplicate: false, differs: false };

export interface JournaledLoadOptions extends Pick<JournaledSettings, 'product' | 'first'> {
  readonly history: History;
  readonly to: Pick<JournalOptions<string>, 'url' | 'cert' | 'key' | 'ca'>;
}

export class JournaledLoad {
  readonly service: Service;
  readonly #args: readonly string[];
  readonly #notes: string;
  readonly #history: History;
  readonly #beganMs: number;

  constructor({ product, first, history, to }: JournaledLoadOptions) {
    const folder = temporaryFolder('ingest-journal-');
    this.#notes = join(folder, 'notes');
    writeFileSync(this.#notes, '');
    const options = { ...to, journal: join(folder, 'journal'), tries: TRIES, ratePerS: EVENTS_A_SECOND };
    const settings: JournaledSettings = { product, notes: this.#notes, first, options };
    this.#args = ['--disable-warning=ExperimentalWarning', PROGRAM, JSON.stringify(settings)];
    this.#history = history;
    this.#beganMs = history.now();
    this.service = new Service('producer 1', process.execPath, this.#args, {}, history);
  }

  /** Kills the producer, records its events in the ledger, and sends its journaled events. Rejects at the deadline. */
  async drain(ledger: Ledger, deadlineMs: number): Promise<void> {
    await this.service.stop();
    for (const [number, isHeld] of readNotes(this.#notes)) {
      const times = { sentMs: this.#beganMs, doneMs: this.#history.now(), clockMoves: [0, 0] as const };
      const answer = isHeld ? ACCEPTED : undefined;
      ledger.note({ number, variant: 0, producer: 'own', gateway: 'by a journal', answer, ...times });
    }
    const last = new TestProcess(process.execPath, [...this.#args, 'drain'], {});
    await eventually('what the journal holds is sent', () => last.child.exitCode !== null, deadlineMs);
    if (last.child.exitCode !== 0) this.service.crashes.push(`what its journal holds was not sent: ${last.output}`);
  }
}
