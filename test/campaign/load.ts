// Sends events at an even rate. Each event is retried with the same id, at the next gateway and after growing pauses,
// as long as the answer is retryable or missing. Some accepted ids are sent again: with the same body, with another
// body, or by another producer. Some events are sent twice at the same time. At most IN_FLIGHT_MAX events are in
// progress.
import { setTimeout as delay } from 'node:timers/promises';
import { bodyOf, idOf } from './event.ts';
import { judged, type Judged } from './documented-answer.ts';
import type { Ledger, Producer, Told } from './ledger.ts';
import type { TestClient } from '../support/client.ts';
import type { Random } from './random.ts';

export const EVENTS_A_SECOND = 600;
const TICK_MS = 10;
const IN_FLIGHT_MAX = 96;
const PAUSE_FIRST_MS = 20;
const PAUSE_MAX_MS = 400;
const LAST_TRIES_MS = 5_000;
/** A gateway answers sooner, because it waits at most one second for the queue. */
const ANSWER_TIMEOUT_MS = 3_000;

/** Shares of the events that are sent again after acceptance, or twice at the same time. */
const SAME_BODY = 0.05;
const OTHER_BODY = 0.02;
const OTHER_PRODUCER = 0.01;
const TWICE = 0.02;

/** A way to a gateway with the certificate of a producer. */
export interface Poster {
  readonly gateway: string;
  readonly client: TestClient;
}

export interface LoadOptions {
  readonly ledger: Ledger;
  readonly random: Random;
  readonly posters: Readonly<Record<Producer, readonly Poster[]>>;
  readonly now: () => number;
  readonly clockMoves: () => number;
  readonly first: number;
}

export class Load {
  readonly #options: LoadOptions;
  readonly #underWay = new Set<Promise<void>>();
  readonly #ticks: NodeJS.Timeout;
  #next: number;
  #requests = 0;
  #due = 0;
  #tickedMs = performance.now();
  #endMs = Number.POSITIVE_INFINITY;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#next = options.first;
    this.#ticks = setInterval(() => this.#tick(), TICK_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#ticks);
    this.#endMs = performance.now() + LAST_TRIES_MS;
    await Promise.all(this.#underWay);
    for (const { client } of Object.values(this.#options.posters).flat()) client.close();
  }

  #tick(): void {
    const now = performance.now();
    // Events that are late are dropped instead of being sent in a burst.
    this.#due = Math.min(this.#due + ((now - this.#tickedMs) * EVENTS_A_SECOND) / 1000, IN_FLIGHT_MAX);
    this.#tickedMs = now;
    for (; this.#due >= 1 && this.#underWay.size < IN_FLIGHT_MAX; this.#due -= 1) {
      const event = this.#event(this.#next++).finally(() => this.#underWay.delete(event));
      this.#underWay.add(event);
    }
  }

  async #event(number: number): Promise<void> {
    const { random, clockMoves } = this.#options;
    const twice = random.chance(TWICE);
    const again = random.fraction();
    const moves = clockMoves();
    const tries = [this.#deliver(number, 0, 'own')];
    if (twice) tries.push(this.#deliver(number, 0, 'own'));
    const accepted = (await Promise.all(tries)).every((told) => told?.status === 202);
    if (!accepted) return;
    if (again < SAME_BODY) await this.#deliver(number, 0, 'own');
    // If the queue's clock has moved by 24 hours, the id counts as new, and either event may land first.
    if (clockMoves() !== moves || moves % 2 === 1) return;
    if (again > 1 - OTHER_PRODUCER) await this.#deliver(number, 0, 'other');
    else if (again > 1 - OTHER_PRODUCER - OTHER_BODY) await this.#deliver(number, 1, 'own');
  }

  async #deliver(number: number, variant: number, producer: Producer): Promise<Told | undefined> {
    const { random, posters, clockMoves } = this.#options;
    const body = bodyOf(number, variant);
    const ways = posters[producer];
    let way = random.between(0, ways.length - 1);
    const moves = clockMoves();
    for (let tries = 0; performance.now() < this.#endMs; tries += 1) {
      const found = await this.#try(number, variant, producer, ways[way % ways.length], body);
      if (found !== undefined && (found.told.status === 202 || !found.retryable)) return found.told;
      if (variant + Number(producer === 'other') > 0 && clockMoves() !== moves) return undefined;
      way += 1;
      await delay(Math.min(PAUSE_FIRST_MS * 2 ** tries, PAUSE_MAX_MS) * (0.5 + random.fraction() / 2));
    }
    return undefined;
  }

  async #try(
    number: number,
    variant: number,
    producer: Producer,
    poster: Poster | undefined,
    body: string,
  ): Promise<Judged | undefined> {
    if (poster === undefined) throw new Error('no gateway');
    const { ledger, now, clockMoves } = this.#options;
    const requestId = `request-${++this.#requests}`;
    const sentMs = now();
    const before = clockMoves();
    const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    const raw = await poster.client.post(body, { 'x-request-id': requestId }, signal).catch(() => undefined);
    const found = raw === undefined ? undefined : judged(raw, idOf(number), requestId);
    const entry = { number, variant, producer, gateway: poster.gateway, sentMs, doneMs: now(), answer: found?.told };
    ledger.note({ ...entry, clockMoves: [before, clockMoves()] });
    if (raw !== undefined && found?.fault !== undefined)
      ledger.undocumented.push(`${found.fault}: ${raw.status} ${raw.body.slice(0, 300)}`);
    if (found !== undefined && found.told.status !== 202 && !found.retryable && producer === 'own')
      ledger.undocumented.push(`a good event was refused for good: ${raw?.status} ${raw?.body.slice(0, 300)}`);
    return found;
  }
}
