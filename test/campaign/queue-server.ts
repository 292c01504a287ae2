// Runs one Redis server at a time behind one address, with a clock that can be set. With `appendfsync always`, a
// server that is killed loses no command that it has answered.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FailingCalls } from '../support/failing-calls.ts';
import { openLink, type Link } from '../support/link.ts';
import { clockFrom, TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Volume } from './volume.ts';

const ARGS = ['--appendfsync', 'always', '--repl-diskless-sync-delay', '0', '--repl-timeout', '5'];

export class QueueServer {
  /** The server's clock starts this many seconds ahead of the real time. */
  readonly startS: number;
  /** This number is odd from the moment the clock is set until the server has the new time. */
  clockMoves = 0;
  readonly volume = new Volume();
  readonly fsync: FailingCalls;
  link!: Link;
  redis!: TestRedis;
  readonly #clockFile = join(temporaryFolder('ingest-clock-'), 'offset');
  readonly #env: Readonly<Record<string, string>>;

  private constructor(startS: number) {
    this.startS = startS;
    this.#writeClock(startS);
    // With these settings, libfaketime reads the file once a second instead of at every call.
    const cached = { FAKETIME_NO_CACHE: '0', FAKETIME_CACHE_DURATION: '1' };
    const clock = clockFrom(this.#clockFile);
    this.fsync = new FailingCalls('fsync', clock['LD_PRELOAD']);
    this.#env = { ...clock, ...cached, ...this.fsync.environment };
  }

  static async start(startS: number): Promise<QueueServer> {
    const queue = new QueueServer(startS);
    queue.redis = await queue.#start();
    queue.link = await openLink({ host: '127.0.0.1', port: queue.redis.port });
    return queue;
  }

  get uri(): string {
    return `redis://localhost:${this.link.port}`;
  }

  /** Sets the server's clock to a number of seconds after its start, and waits until the server has the new time. */
  async setClock(offS: number): Promise<void> {
    const seconds = this.startS + offS;
    this.clockMoves += 1;
    this.#writeClock(seconds);
    await eventually('Redis has the new time', async () => {
      const [now] = (await this.redis.command('TIME')) as [string, string];
      return Math.abs(Number(now) - Date.now() / 1000 - seconds) < 60;
    });
    this.clockMoves += 1;
  }

  async replication(server = this.redis): Promise<string> {
    return String(await server.command('INFO', 'replication'));
  }

  async replica(): Promise<TestRedis> {
    const replica = await this.#start();
    await replica.command('REPLICAOF', '127.0.0.1', String(this.redis.port));
    await eventually('the replica follows, and has written its file', async () => {
      const persistence = String(await replica.command('INFO', 'persistence'));
      return (
        persistence.includes('aof_rewrite_in_progress:0') &&
        (await this.replication(replica)).includes('master_link_status:up')
      );
    });
    return replica;
  }

  async landed(): Promise<boolean> {
    const [group = []] = (await this.redis.command('XINFO', 'GROUPS', 'ingest')) as unknown[][];
    const valueOf = (name: string): unknown => group[group.indexOf(name) + 1];
    if (valueOf('pending') !== 0) return false;
    const unread = `(${String(valueOf('last-delivered-id'))}`;
    return ((await this.redis.command('XRANGE', 'ingest', unread, '+', 'COUNT', '1')) as unknown[]).length === 0;
  }

  async stop(): Promise<void> {
    await this.link.close();
    await this.redis.signal('SIGCONT');
    await this.redis.signal('SIGKILL');
    this.volume.close();
  }

  #start(): Promise<TestRedis> {
    return TestRedis.start(ARGS, { env: this.#env, under: this.volume.folder });
  }

  #writeClock(seconds: number): void {
    writeFileSync(this.#clockFile, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
  }
}
