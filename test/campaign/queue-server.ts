// Runs one Redis server at a time behind one address, with a clock that can be set. With `appendfsync always`, a
// server that is killed loses no command that it has answered.
import { FailingCalls } from '../support/failing-calls.ts';
import { openLink, type Link } from '../support/link.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually } from '../support/scope.ts';
import { Clock } from './clock.ts';
import { Volume } from './volume.ts';

const ARGS = ['--appendfsync', 'always', '--repl-diskless-sync-delay', '0', '--repl-timeout', '5'];

export class QueueServer {
  readonly clock: Clock;
  readonly volume: Volume;
  readonly fsync: FailingCalls;
  readonly link: Link;
  redis: TestRedis;

  private constructor(clock: Clock, fsync: FailingCalls, volume: Volume, redis: TestRedis, link: Link) {
    this.clock = clock;
    this.fsync = fsync;
    this.volume = volume;
    this.redis = redis;
    this.link = link;
  }

  static async start(clockS: number): Promise<QueueServer> {
    const clock = new Clock(clockS);
    const volume = new Volume();
    const fsync = new FailingCalls('fsync', clock.environment['LD_PRELOAD']);
    const env = { ...clock.environment, ...fsync.environment };
    const redis = await TestRedis.start(ARGS, { env, under: volume.folder });
    return new QueueServer(clock, fsync, volume, redis, await openLink({ host: '127.0.0.1', port: redis.port }));
  }

  get uri(): string {
    return `redis://localhost:${this.link.port}`;
  }

  /** Sets the server's clock to a number of seconds after its start, and waits until the server has the new time. */
  async setClock(offS: number): Promise<void> {
    const seconds = this.clock.startS + offS;
    this.clock.set(seconds);
    await eventually('Redis has the new time', async () => {
      const [now] = (await this.redis.command('TIME')) as [string, string];
      return Math.abs(Number(now) - Date.now() / 1000 - seconds) < 60;
    });
    this.clock.arrived();
  }

  async replica(): Promise<TestRedis> {
    const env = { ...this.clock.environment, ...this.fsync.environment };
    const replica = await TestRedis.start(ARGS, { env, under: this.volume.folder });
    await replica.command('REPLICAOF', '127.0.0.1', String(this.redis.port));
    await eventually('the replica follows, and has written its file', async () => {
      const [replication, persistence] = await Promise.all([
        replica.command('INFO', 'replication'),
        replica.command('INFO', 'persistence'),
      ]);
      return /master_link_status:up/.test(String(replication)) && /aof_rewrite_in_progress:0/.test(String(persistence));
    });
    return replica;
  }

  async landed(): Promise<boolean> {
    const groups = (await this.redis.command('XINFO', 'GROUPS', 'ingest')) as unknown[][];
    const [group] = groups;
    if (group === undefined) return false;
    const valueOf = (name: string): unknown => group[group.indexOf(name) + 1];
    if (Number(valueOf('pending')) > 0) return false;
    const last = String(valueOf('last-delivered-id'));
    return ((await this.redis.command('XRANGE', 'ingest', `(${last}`, '+', 'COUNT', '1')) as unknown[]).length === 0;
  }

  async stop(): Promise<void> {
    await this.link.close();
    await this.redis.signal('SIGCONT');
    await this.redis.signal('SIGKILL');
    this.volume.close();
  }
}
