// A queue that makes a span of each event whose producer records its trace, from its submission to its outcome. The
// event goes on with that span as its context.
//
// Names and attributes follow OpenTelemetry's semantic conventions for messaging.
import type { Outcome, Queue, QueueLookup, QueueState, Submission } from '../ingest/queue.ts';
import { isSampled, traceContext, type TraceContext } from '../ingest/trace-context.ts';
import type { Clock } from '../process/clock.ts';
import type { SpanParent, Tracing } from '../telemetry/tracing.ts';

interface Sending {
  readonly trace: TraceContext;
  readonly context: SpanParent;
  readonly startMs: number;
  readonly outcome: Outcome;
}

export class TracedQueue implements Queue {
  readonly #queue: Queue;
  readonly #tracing: Tracing;
  readonly #clock: Clock;
  readonly #destination: string;

  /** `destination` is the value of `messaging.destination.name`. */
  constructor(queue: Queue, tracing: Tracing, clock: Clock, destination: string) {
    this.#queue = queue;
    this.#clock = clock;
    this.#tracing = tracing;
    this.#destination = destination;
  }

  submit(submission: Submission): void {
    const { id, producer, text, notes } = submission;
    const trace = traceContext(notes?.traceparent, notes?.tracestate);
    if (trace === undefined || !isSampled(trace)) {
      this.#queue.submit(submission);
      return;
    }
    const context = this.#tracing.reserve(trace);
    const startMs = this.#clock.ms();
    const settle = (outcome: Outcome): void => {
      submission.settle(outcome);
      this.#record(submission, { trace, context, startMs, outcome });
    };
    this.#queue.submit({ id, producer, text, notes: { ...notes, traceparent: context.traceparent }, settle });
  }

  find(id: string, producer: string): Promise<QueueLookup> {
    return this.#queue.find(id, producer);
  }

  state(): QueueState {
    return this.#queue.state();
  }

  states(): readonly QueueState[] {
    return this.#queue.states();
  }

  close(): Promise<void> {
    return this.#queue.close();
  }

  #record({ id, producer, text }: Submission, { trace, context, startMs, outcome }: Sending): void {
    // The duration is of the clock that does not jump.
    const endMs = this.#clock.epochMs();
    const error = outcome === 'unavailable' || outcome === 'shed' ? outcome : undefined;
    this.#tracing.record({
      name: `send ${this.#destination}`,
      kind: 'producer',
      parent: trace,
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
  }
}
