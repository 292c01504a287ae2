// The protection of accepted events on a server: a 202 promises that it evicts no keys, writes an append-only file, and
// has as many replicas as accepting calls wait for.
import type { Log } from '../../process/log.ts';
import { QueueRefusal, RewriteRunning } from '../wire/errors.ts';
import type { Server } from '../wire/script.ts';
import { serverHistory, serverInfo } from './facts.ts';

interface DurabilityCheckOptions {
  /** Refuses such a server, or logs it. */
  readonly level: 'warn' | 'require';
  /** How many replicas accepting calls wait for. */
  readonly replicas: number;
  readonly log: Log;
}

export class DurabilityCheck {
  readonly #options: DurabilityCheckOptions;
  /** The history of the server that was found without a rewrite: a later one replaces a file that is whole. */
  #settled: string | undefined;

  constructor(options: DurabilityCheckOptions) {
    this.#options = options;
  }

  /**
   * Rejects, if durability is required, with a QueueRefusal for a server that could lose accepted events, and with
   * RewriteRunning for one whose append-only file is being rewritten: waiting helps there.
   */
  async check(server: Server): Promise<void> {
    const { level, replicas, log } = this.#options;
    const history = await serverHistory(server);
    const rewrite = history !== undefined && history === this.#settled ? undefined : await aofRewrite(server);
    if (rewrite === undefined) this.#settled = history;
    const faults = [...(await durabilityFaults(server)), ...(await replicationFaults(server, replicas))];
    if (rewrite?.isFirst === true) faults.push(rewrite.fault);
    if (level === 'require') {
      if (faults.length > 0) throw new QueueRefusal(`INGEST_QUEUE_DURABILITY=require: ${faults.join('; ')}`);
      if (rewrite !== undefined) throw new RewriteRunning(`INGEST_QUEUE_DURABILITY=require: ${rewrite.fault}`);
    } else if (rewrite?.isFirst === false) faults.push(rewrite.fault);
    for (const fault of faults) log.warn({ fault }, 'the queue may lose accepted events');
  }
}

/** What is wrong, in words for an operator; nothing when all is well. A server that does not tell counts as a fault. */
export async function durabilityFaults(server: Server): Promise<readonly string[]> {
  const faults: string[] = [];
  const policy = (await serverInfo(server, 'memory')).get('maxmemory_policy');
  if (policy === undefined) {
    faults.push(
      'the server does not tell its maxmemory-policy (INFO memory): whether it drops accepted events is unknown',
    );
  } else if (policy !== 'noeviction') {
    faults.push(`maxmemory-policy is ${policy}: Redis may drop accepted events; set it to noeviction`);
  }
  const appends = (await serverInfo(server, 'persistence')).get('aof_enabled');
  if (appends === undefined) {
    faults.push(
      'the server does not tell whether it writes an append-only file (INFO persistence): ' +
        'whether it keeps accepted events is unknown',
    );
  } else if (appends === '0') {
    faults.push('the append-only file is off: accepted events are lost with the server; set appendonly yes');
  }
  return faults;
}

/** A rewrite of the append-only file, in words for an operator. */
export interface AofRewrite {
  readonly fault: string;
  /** It is the first one of a replica that was promoted: until it ends, no file has what the server accepts. */
  readonly isFirst: boolean;
}

/**
 * The rewrite of the append-only file that is running; undefined if none is.
 *
 * Fact (Redis 7.0.15): a replica after a full synchronization, and a server after CONFIG SET appendonly yes, write to
 * no file that a restart reads until their first rewrite has ended. A replica that was promoted meanwhile and then
 * killed came back empty. INFO does not distinguish such a rewrite from any other, except that no earlier one has ended
 * since the server started, and that a promoted replica has the history of its former master.
 */
export async function aofRewrite(server: Server): Promise<AofRewrite | undefined> {
  const persistence = await serverInfo(server, 'persistence');
  if (persistence.get('aof_rewrite_in_progress') !== '1') return undefined;
  const formerMaster = (await serverInfo(server, 'replication')).get('master_replid2') ?? '';
  const isFirst = persistence.get('aof_last_rewrite_time_sec') === '-1' && /[1-9a-f]/.test(formerMaster);
  return {
    isFirst,
    fault: isFirst
      ? 'the server was promoted before its first append-only file was written: until that has ended, ' +
        'accepted events are lost with it'
      : 'the append-only file is being rewritten: if the server has just begun to write one, ' +
        'accepted events are lost with it until that has ended',
  };
}

/**
 * What is wrong with a server's replicas, for a gateway that waits for so many of them: a fail-over forgets what they
 * had not received.
 */
export async function replicationFaults(server: Server, replicas: number): Promise<readonly string[]> {
  const told = (await serverInfo(server, 'replication')).get('connected_slaves');
  if (told === undefined)
    return replicas === 0 ? [] : ['the server does not tell how many replicas it has (INFO replication)'];
  const connected = Number(told);
  if (connected >= replicas && (connected === 0 || replicas > 0)) return [];
  return [
    replicas === 0
      ? `the server has replicas (${connected}) and INGEST_QUEUE_REPLICAS is 0: ` +
        'a fail-over loses accepted events that no replica has received'
      : `${connected} replicas are connected and INGEST_QUEUE_REPLICAS is ${replicas}: ` +
        'no event is accepted until there are as many',
  ];
}
