// Takes users and passwords that change in the files of INGEST_QUEUE_URI_FILE and INGEST_WAREHOUSE_URI_FILE into use,
// without a restart: seen within a second, or at once on SIGHUP.
//
// The whole configuration is read again and must be good. What it says of anything but users and passwords of the same
// places is left for the next start, and logged where it is another place.
import { processEnvironment, type Environment, type ReadConfig } from '../lib/process/env.ts';
import { Credentials } from '../lib/process/credentials.ts';
import { FileWatch, lookAt } from '../lib/process/file-watch.ts';
import type { Log } from '../lib/process/log.ts';
import { SYSTEM } from './system.ts';

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
  stop(): void;
}

export async function watchCredentials(
  config: Places,
  read: (environment: Environment) => ReadConfig<Places>,
  log: Log,
): Promise<WatchedCredentials> {
  const environment = processEnvironment();
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
    if (uris.length !== known.length || !known.every((one, at) => one.isSamePlace(uris[at] ?? ''))) {
      log.error('the URI of the queue or of the warehouse names another place now: that takes a restart');
      return;
    }
    const names = [...queue.map(() => 'the queue'), 'the warehouse'];
    for (const [at, one] of known.entries()) void one.change(uris[at] ?? '', names[at] ?? '', SYSTEM.clock, log);
  };
  const paths = ['INGEST_QUEUE_URI_FILE', 'INGEST_WAREHOUSE_URI_FILE'].flatMap((key) => environment[key] || []);
  const watch = new FileWatch(SYSTEM.clock, paths, await lookAt(paths), () => Promise.resolve(changed()));
  process.on('SIGHUP', () => void watch.now(true));
  return { queue, warehouse, stop: () => watch.stop() };
}
