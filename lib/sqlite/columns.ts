// A batch on its way to the worker thread, as columns.
//
// Fact: a message between threads is copied value by value, and a Buffer that is a view of a larger block takes the whole block
// with it. Choice: the bodies travel as one block of their own, which is moved and not copied.
import type { LandingEvent } from '../ingest/warehouse.ts';

export interface LandingColumns {
  readonly ids: readonly string[];
  readonly types: readonly string[];
  readonly producers: readonly string[];
  readonly acceptedAtMs: Float64Array;
  /** All bodies, one after the other; body n ends before `bodyEnds[n]`. */
  readonly bodies: Uint8Array<ArrayBuffer>;
  readonly bodyEnds: Float64Array;
}

export function columnsOf(batch: readonly LandingEvent[]): LandingColumns {
  const bodies = new Uint8Array(batch.reduce((bytes, { body }) => bytes + body.length, 0));
  const bodyEnds = new Float64Array(batch.length);
  let end = 0;
  for (const [at, { body }] of batch.entries()) {
    bodies.set(body, end);
    end += body.length;
    bodyEnds[at] = end;
  }
  return {
    ids: batch.map(({ id }) => id),
    types: batch.map(({ type }) => type),
    producers: batch.map(({ producer }) => producer),
    acceptedAtMs: Float64Array.from(batch, ({ acceptedAtMs }) => acceptedAtMs),
    bodies,
    bodyEnds,
  };
}
