// The spans of sending events to one queue: one for each event whose producer records its trace, from its submission to
// its outcome. The event goes on with that span as its context.
//
// Names and attributes follow OpenTelemetry's semantic conventions for messaging.
import type { Outcome, Submission } from '../ingest/queue.ts';
import { isSampled, traceContext } from '../ingest/trace-context.ts';
import type { Clock } from '../process/clock.ts';
import type { Tracing } from '../telemetry/tracing.ts';

export class SendingSpans {
  readonly #tracing: Tracing;
  readonly #clock: Clock;
  readonly #destination: string;

  /** `destination` is the value of `messaging.destination.name`. */
  constructor(tracing: Tracing, clock: Clock, destination: string) {
    this.#tracing = tracing;
    this.#clock = clock;
    this.#destination = destination;
  }

  /** The submission as the queue is to have it. Its span is recorded when it is settled. */
  traced(submission: Submission): Submission {
    const { id, producer, text, notes } = submission;
    const parent = traceContext(notes?.traceparent, notes?.tracestate);
    if (parent === undefined || !isSampled(parent)) return submission;
    const context = this.#tracing.reserve(parent);
    const startMs = this.#clock.ms();
    const settle = (outcome: Outcome): void => {
      submission.settle(outcome);
      // The duration is of the clock that does not jump.
      const endMs = this.#clock.epochMs();
      const error = outcome === 'unavailable' || outcome === 'shed' ? outcome : undefined;
      this.#tracing.record({
        name: `send ${this.#destination}`,
        kind: 'producer',
        parent,
        context,
        startMs: endMs - (this.#clock.ms() - startMs),
        endMs,
        attributes: {
          'messaging.system': 'redis',
          'messaging.destination.name': this.#destination,
          'messaging.operation.name': 'send',
          'messaging.operation.type': 'send',
          'messaging.message.id': id,
          'messaging.message.body.size': Buffer.byteLength(text),
          'ingest.producer': producer,
          ...(error === undefined ? {} : { 'error.type': error }),
        },
        error,
      });
    };
    return { id, producer, text, notes: { ...notes, traceparent: context.traceparent }, settle };
  }
}
