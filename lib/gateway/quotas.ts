// What the operator lets each producer do: the producers file and INGEST_PRODUCER_RATE_MAX, as checks of requests.
//
// Every request of a limited producer counts as one event, whatever its answer, and is judged before its body is read,
// so that a refusal is cheap. A compressed body counts one more for each 16 KiB by which it expands. Answers carry
// RateLimit and RateLimit-Policy. Lookups count on their own, against `lookUpRate`; without one they are not limited,
// and producers take turns (producer-turns.ts).
import { problem } from '../ingest/errors.ts';
import type { Clock } from '../process/clock.ts';
import type { GatewayAnswer } from './answers.ts';
import type { Producers } from './producers-file.ts';
import { RateLimit, rateLimitFields, type QuotaVerdict } from './rate-limit.ts';

/** An expansion by so many bytes counts as one event. */
const EXPANSION_BYTES = 16_384;

/** The number of types that a refusal names. */
const TYPES_NAMED_MAX = 20;

/** A request, as quotas see it: they set the header fields of its answer. */
interface Limited {
  fields: readonly string[] | undefined;
}

export class Quotas {
  readonly #events = new RateLimit();
  readonly #lookUps = new RateLimit();
  readonly #rateMax: number | undefined;
  readonly #clock: Clock;
  #producers: Producers;

  /** `rateMax`: events a second of a producer that has no rate of its own; undefined: any number. */
  constructor(producers: Producers, rateMax: number | undefined, clock: Clock) {
    this.#clock = clock;
    this.#producers = producers;
    this.#rateMax = rateMax;
  }

  /** Takes a changed file into use. What has been used of a quota stays used. */
  replace(producers: Producers): void {
    this.#producers = producers;
  }

  /** Whether the file grants this producer the audience. */
  grants(producer: string, audience: string): boolean {
    return this.#producers.rulesFor(producer).audience.includes(audience);
  }

  /** Counts a request; `exchange` gets the fields about the quota. Returns `undefined` if it may go on. */
  refusal(producer: string, exchange: Limited): GatewayAnswer | undefined {
    const { disabled, rate = this.#rateMax } = this.#producers.rulesFor(producer);
    if (disabled !== undefined) return problem('producerDisabled', `this producer is disabled: ${disabled}`);
    if (rate === undefined) return undefined;
    return over(this.#events.take(producer, rate, this.#clock.ms()), 'send', exchange);
  }

  /** Counts a body that was `bytes` shorter before it was decoded. Its request goes on; later ones may have to wait. */
  chargeExpansion(producer: string, bytes: number, exchange: Limited): void {
    const { rate = this.#rateMax } = this.#producers.rulesFor(producer);
    const events = Math.floor(bytes / EXPANSION_BYTES);
    if (rate === undefined || events <= 0) return;
    exchange.fields = rateLimitFields(this.#events.charge(producer, rate, events, this.#clock.ms()));
  }

  /** The same for a lookup. */
  lookUpRefusal(producer: string, exchange: Limited): GatewayAnswer | undefined {
    const { lookUpRate } = this.#producers.rulesFor(producer);
    if (lookUpRate === undefined) return undefined;
    return over(this.#lookUps.take(producer, lookUpRate, this.#clock.ms()), 'look up', exchange);
  }

  typeRefusal(producer: string, type: string): GatewayAnswer | undefined {
    const { allowsType, types = [] } = this.#producers.rulesFor(producer);
    if (allowsType(type)) return undefined;
    const more = types.length > TYPES_NAMED_MAX ? ` and ${types.length - TYPES_NAMED_MAX} more` : '';
    const allowed = types.length === 0 ? 'none' : types.slice(0, TYPES_NAMED_MAX).join(', ') + more;
    return problem('typeNotAllowed', `this producer may not send events of the type ${type}; allowed: ${allowed}`);
  }
}

function over(verdict: QuotaVerdict, verb: string, exchange: Limited): GatewayAnswer | undefined {
  exchange.fields = rateLimitFields(verdict);
  if (verdict.allowed) return undefined;
  const detail = `this producer may ${verb} ${verdict.rate} events a second; try again in ${verdict.retryAfterS} s`;
  return problem('producerRateLimited', detail, { retryAfterS: verdict.retryAfterS });
}
