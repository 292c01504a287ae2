// A queue that makes a span of each event whose producer records its trace, from its submission to its outcome. The
// event goes on with that span as its context.
//
// Names and attributes follow OpenTelemetry's semantic conventions for messaging.
import type { EventNotes, Outcome, Queue, QueueLookup, QueueState, Submission } from '../ingest/queue.ts';
import { isSampled, traceContext, type TraceContext } from '../ingest/trace-context.ts';
import type { Clock } from '../process/clock.ts';
import type { SpanParent, Tracing } from '../telemetry/tracing.ts';

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
    const { traceparent, tracestate } = submission.notes ?? {};
    const trace = traceContext(traceparent, tracestate);
    if (trace === undefined || !isSampled(trace)) this.#queue.submit(submission);
    else this.#queue.submit(new TracedSubmission(submission, trace, this.#tracing, this.#clock, this.#destination));
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
}

class TracedSubmission implements Submission {
  readonly id: string;
  readonly producer: string;
  readonly text: string;
  readonly notes: EventNotes | undefined;
  readonly #submission: Submission;
  readonly #trace: TraceContext;
  readonly #context: SpanParent;
  readonly #tracing: Tracing;
  readonly #destination: string;
  readonly #clock: Clock;
  readonly #startMs: number;

  constructor(submission: Submission, trace: TraceContext, tracing: Tracing, clock: Clock, destination: string) {
    this.id = submission.id;
    this.producer = submission.producer;
    this.text = submission.text;
    this.#context = tracing.reserve(trace);
    this.notes = { ...submission.notes, traceparent: this.#context.traceparent };
    this.#submission = submission;
    this.#trace = trace;
    this.#tracing = tracing;
    this.#destination = destination;
    this.#clock = clock;
    this.#startMs = clock.ms();
  }

  settle(outcome: Outcome): void {
    this.#submission.settle(outcome);
    // The duration is of the clock that does not jump.
    const endMs = this.#clock.epochMs();
    const error = outcome === 'unavailable' || outcome === 'shed' ? outcome : undefined;
    this.#tracing.record({
      name: `send ${this.#destination}`,
      kind: 'producer',
      parent: this.#trace,
      context: this.#context,
      startMs: endMs - (this.#clock.ms() - this.#startMs),
      endMs,
      attributes: {
        'messaging.system': 'redis',
        'messaging.destination.name': this.#destination,
        'messaging.operation.name': 'send',
        'messaging.operation.type': 'send',
        'messaging.message.id': this.id,
        'messaging.message.body.size': Buffer.byteLength(this.text),
        'ingest.producer': this.producer,
        ...(error === undefined ? {} : { 'error.type': error }),
      },
      error,
    });
  }
}
