// What the operator lets each producer do: the producers file and INGEST_PRODUCER_RATE_MAX, as checks of requests.
//
// Every request of a limited producer counts as one event, whatever its answer. It is judged before its body is read,
// so that a refusal is cheap. Its answers carry RateLimit and RateLimit-Policy. Look-ups count by themselves, against
// `lookUpRate`; where a row has none they are not limited, and producers share turns (look-up-turns.ts).
import { problem } from '../ingest/errors.ts';
import type { Clock } from '../process/clock.ts';
import { type GatewayAnswer } from './answers.ts';
import type { Exchange } from './exchange.ts';
import type { Producers } from './producers-file.ts';
import { RateLimit, rateLimitFields, type QuotaVerdict } from './rate-limit.ts';

/** So many types a refusal names. */
const TYPES_NAMED_MAX = 20;

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

  /** Counts a request; `exchange` gets the fields that tell of the quota. Undefined: it may go on. */
  refusal(producer: string, exchange: Pick<Exchange, 'answerWith'>): GatewayAnswer | undefined {
    const { disabled, rate = this.#rateMax } = this.#producers.rulesFor(producer);
    if (disabled !== undefined) return problem('producerDisabled', `this producer is disabled: ${disabled}`);
    if (rate === undefined) return undefined;
    return over(this.#events.take(producer, rate, this.#clock.ms()), 'send', exchange);
  }

  /** The same for a look-up. */
  lookUpRefusal(producer: string, exchange: Pick<Exchange, 'answerWith'>): GatewayAnswer | undefined {
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

function over(verdict: QuotaVerdict, verb: string, exchange: Pick<Exchange, 'answerWith'>): GatewayAnswer | undefined {
  exchange.answerWith(rateLimitFields(verdict));
  if (verdict.allowed) return undefined;
  const detail = `this producer may ${verb} ${verdict.rate} events a second; try again in ${verdict.retryAfterS} s`;
  return problem('producerRateLimited', detail, { retryAfterS: verdict.retryAfterS });
}
