// User and password of a URI that changes while the process runs: a new password, or another user, for the same place.
//
// A client asks for the URI each time it connects (`applied`), and is notified of a change to replace the connections
// that it has (`onChange`). New ones are made before old ones are let go, so a change that the server does not know yet
// costs nothing: it is tried again until it works, or until the next change.
import type { Clock } from './clock.ts';
import { Throttled, type Log } from './log.ts';

const RETRY_MS = 1_000;
const LOG_INTERVAL_MS = 10_000;

/** Scheme, user with password, and the rest: a password has its @ and / percent-encoded. */
const PARTS = /^([a-z+]+:\/\/)(?:([^/?#]*)@)?(.*)$/;

/** Replaces connections by new ones. Rejects where none can be made; then the old ones are as they were. */
export type Renewal = () => Promise<void>;

export class Credentials {
  #uri: string;
  readonly #renewals: Renewal[] = [];

  constructor(uri: string) {
    this.#uri = uri;
  }

  /** `uri` with the user and the password of now. */
  applied(uri: string): string {
    const user = PARTS.exec(this.#uri)?.[2];
    return uri.replace(
      PARTS,
      (_, scheme: string, __, rest: string) => scheme + (user === undefined ? '' : `${user}@`) + rest,
    );
  }

  onChange(renewal: Renewal): void {
    this.#renewals.push(renewal);
  }

  /** Whether `uri` names the same place, with whatever user and password. */
  isSamePlace(uri: string): boolean {
    return this.applied(uri) === this.#uri;
  }

  /** From now on the user and password of `uri` are used. Resolves once all connections have been replaced. */
  async change(uri: string, name: string, clock: Clock, log: Log): Promise<void> {
    if (uri === this.#uri) return;
    this.#uri = uri;
    const failures = new Throttled(clock, LOG_INTERVAL_MS);
    let left = [...this.#renewals];
    for (;;) {
      const ended = await Promise.allSettled(left.map((renewal) => renewal()));
      if (this.#uri !== uri) return;
      const failure = ended.find((one) => one.status === 'rejected');
      if (failure === undefined) break;
      left = left.filter((_, at) => ended[at]?.status === 'rejected');
      const reason = failure.reason instanceof Error ? failure.reason.message : 'unknown error';
      failures.line(() =>
        log.warn(
          { reason },
          `${name}: the new user and password do not work yet; the connections with the old ones stay`,
        ),
      );
      await clock.sleep(RETRY_MS);
    }
    log.info(`${name}: all connections have the new user and password`);
  }
}
