// Checks requests against the producers file and INGEST_PRODUCER_RATE_MAX.
//
// Each request of a rate-limited producer uses one event of its rate, whatever the answer. The check runs before the
// body is read, so that a refusal is cheap. A compressed body uses one more event for each 16 KiB of expansion.
// Lookups use `lookUpRate`, which has no default.
import { problem } from '../ingest/errors.ts';
import type { Clock } from '../process/clock.ts';
import type { GatewayAnswer } from './answers.ts';
import type { Producers } from './producers-file.ts';
import { RateLimit } from './rate-limit.ts';

/** A compressed body uses one event for each expansion by this many bytes. */
const EXPANSION_BYTES = 16_384;

const TYPES_NAMED_MAX = 20;

interface Limited {
  fields: readonly string[] | undefined;
}

export class Quotas {
  readonly #events = new RateLimit();
  readonly #lookUps = new RateLimit();
  readonly #rateMax: number | undefined;
  readonly #clock: Clock;
  #producers: Producers;

  /** `rateMax`, in events per second, applies to producers without a rate in the file; `undefined` means no limit. */
  constructor(producers: Producers, rateMax: number | undefined, clock: Clock) {
    this.#clock = clock;
    this.#producers = producers;
    this.#rateMax = rateMax;
  }

  /** Applies a changed file. Quota that has been used stays used. */
  replace(producers: Producers): void {
    this.#producers = producers;
  }

  grants(producer: string, audience: string): boolean {
    return this.#producers.rulesFor(producer).audience?.includes(audience) === true;
  }

  /** Charges a request. Returns `undefined` if the producer may send it. */
  refusal(producer: string, exchange: Limited): GatewayAnswer | undefined {
    const { disabled, rate = this.#rateMax } = this.#producers.rulesFor(producer);
    if (disabled !== undefined) return problem('producerDisabled', `this producer is disabled: ${disabled}`);
    if (rate === undefined) return undefined;
    return this.#over(this.#events, producer, rate, 'send', exchange);
  }

  /** Charges for a body that decoding made `bytes` longer. Only later requests may be refused because of it. */
  chargeExpansion(producer: string, bytes: number, exchange: Limited): void {
    const { rate = this.#rateMax } = this.#producers.rulesFor(producer);
    const events = Math.floor(bytes / EXPANSION_BYTES);
    if (rate === undefined || events <= 0) return;
    exchange.fields = this.#events.charge(producer, rate, this.#clock.ms(), events, true).fields;
  }

  lookUpRefusal(producer: string, exchange: Limited): GatewayAnswer | undefined {
    const { lookUpRate } = this.#producers.rulesFor(producer);
    if (lookUpRate === undefined) return undefined;
    return this.#over(this.#lookUps, producer, lookUpRate, 'look up', exchange);
  }

  typeRefusal(producer: string, type: string): GatewayAnswer | undefined {
    const { allowsType, types = [] } = this.#producers.rulesFor(producer);
    if (allowsType(type)) return undefined;
    const more = types.length > TYPES_NAMED_MAX ? ` and ${types.length - TYPES_NAMED_MAX} more` : '';
    const allowed = types.length === 0 ? 'none' : types.slice(0, TYPES_NAMED_MAX).join(', ') + more;
    return problem('typeNotAllowed', `this producer may not send events of the type ${type}; allowed: ${allowed}`);
  }

  #over(limit: RateLimit, producer: string, rate: number, verb: string, exchange: Limited): GatewayAnswer | undefined {
    const { retryAfterS, fields } = limit.charge(producer, rate, this.#clock.ms());
    exchange.fields = fields;
    if (retryAfterS === 0) return undefined;
    const detail = `this producer may ${verb} ${rate} events a second; try again in ${retryAfterS} s`;
    return problem('producerRateLimited', detail, { retryAfterS });
  }
}
