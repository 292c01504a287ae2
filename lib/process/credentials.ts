// User and password of a URI that changes while the process runs: a new password, or another user, for the same place.
//
// A client asks for the URI each time it connects (`applied`), and is notified of a change to replace the connections
// that it has (`onChange`). New ones are made before old ones are let go, so a change that the server does not know yet
// costs nothing: it is tried again until it works, or until the next change.
import type { Clock } from './clock.ts';
import type { Environment, ReadConfig } from './env.ts';
import { FileWatch, lookAt } from './file-watch.ts';
import { Throttled, type Log } from './log.ts';
import { messageOf } from './message-of.ts';

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
      const reason = messageOf(failure.reason);
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

/** What a configuration says of the two URIs. */
export interface Places {
  /** One, or several that are separated by blanks. */
  readonly queueUri: string;
  readonly warehouseUri?: string | undefined;
}

export interface WatchedCredentials {
  /** Of each queue, in the order of the URIs. */
  readonly queue: readonly Credentials[];
  readonly warehouse: Credentials;
  /** Looks immediately (SIGHUP). */
  reload(): Promise<void>;
  stop(): void;
}

/**
 * Takes users and passwords that change in the files of INGEST_QUEUE_URI_FILE and INGEST_WAREHOUSE_URI_FILE into use,
 * without a restart: seen within a second.
 *
 * The whole configuration is read again and must be good. What it says of anything but users and passwords of the same
 * places is left for the next start, and logged where it is another place.
 */
export async function watchCredentials(
  config: Places,
  environment: Environment,
  read: (environment: Environment) => ReadConfig<Places>,
  clock: Clock,
  log: Log,
): Promise<WatchedCredentials> {
  const queue = config.queueUri.split(' ').map((uri) => new Credentials(uri));
  const warehouse = new Credentials(config.warehouseUri ?? '');
  const known = [...queue, warehouse];
  const changed = (): void => {
    const { config: now, report } = read(environment);
    if (now === undefined) {
      for (const problem of report.problems) log.error(`the configuration changed and cannot be used: ${problem}`);
      return;
    }
    const uris = [...now.queueUri.split(' '), now.warehouseUri ?? ''];
    if (!known.every((one, at) => one.isSamePlace(uris[at] ?? ''))) {
      log.error('the URI of the queue or of the warehouse names another place now: that takes a restart');
      return;
    }
    const names = [...queue.map(() => 'the queue'), 'the warehouse'];
    for (const [at, one] of known.entries()) void one.change(uris[at] ?? '', names[at] ?? '', clock, log);
  };
  const paths = ['INGEST_QUEUE_URI_FILE', 'INGEST_WAREHOUSE_URI_FILE'].flatMap((key) => environment[key] || []);
  const watch = new FileWatch(clock, paths, await lookAt(paths), () => Promise.resolve(changed()));
  return { queue, warehouse, reload: () => watch.now(true), stop: () => watch.stop() };
}
