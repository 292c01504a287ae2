// Checks how well a server protects accepted events. A 202 promises that the server evicts no keys, writes an
// append-only file and has the configured number of replicas.
import type { Log } from '../../process/log.ts';
import { QueueRefusal } from '../wire/errors.ts';
import type { Server } from '../wire/values.ts';
import { historyIn, serverInfo, type ServerInfo } from './server-info.ts';

export class DurabilityCheck {
  readonly #options: { readonly level: 'warn' | 'require'; readonly replicas: number; readonly log: Log };
  /** True if the last check failed only because the server is rewriting its append-only file. */
  awaitsRewrite = false;
  /** The history of a server that was seen without a rewrite. Any later rewrite replaces a complete file. */
  #settled: string | undefined;

  constructor(level: 'warn' | 'require', replicas: number, log: Log) {
    this.#options = { level, replicas, log };
  }

  /** With `require`, rejects with a QueueRefusal, or with an Error during a rewrite of the append-only file. */
  async check(server: Server): Promise<void> {
    const { level, replicas, log } = this.#options;
    this.awaitsRewrite = false;
    const info = await serverInfo(server);
    const history = historyIn(info);
    const rewrite = history !== undefined && history === this.#settled ? undefined : aofRewrite(info);
    if (rewrite === undefined) this.#settled = history;
    const faults = [...durabilityFaults(info), ...replicationFaults(info, replicas)];
    const isLasting = level === 'warn' || faults.length > 0 || rewrite?.isFirst === true;
    this.awaitsRewrite = !isLasting && rewrite !== undefined;
    if (rewrite !== undefined) faults.push(rewrite.fault);
    if (level === 'warn') for (const fault of faults) log.warn({ fault }, 'the queue may lose accepted events');
    else if (faults.length > 0) {
      const reason = `INGEST_QUEUE_DURABILITY=require: ${faults.join('; ')}`;
      throw isLasting ? new QueueRefusal(reason) : new Error(reason);
    }
  }
}

/** Returns the faults, for an operator. A setting that the server does not report is one. */
export function durabilityFaults(info: ServerInfo): readonly string[] {
  if (info.size === 0)
    return [
      'the server refuses INFO, so it does not report whether it evicts keys or writes an append-only file: ' +
        'the user lacks the right +info, or the server has no such command',
    ];
  const [policy = 'unknown', appends = 'unknown'] = ['maxmemory_policy', 'aof_enabled'].map((name) => info.get(name));
  const faults: string[] = [];
  if (policy !== 'noeviction')
    faults.push(`maxmemory-policy is ${policy}: Redis may drop accepted events; set it to noeviction`);
  if (appends === 'unknown') faults.push('the server does not report whether it writes an append-only file (INFO)');
  if (appends === '0')
    faults.push('the append-only file is off: accepted events are lost with the server; set appendonly yes');
  return faults;
}

/**
 * After a full synchronization, and after CONFIG SET appendonly yes, a server (Redis 7.0.15) writes no file that a
 * restart would read until its first rewrite has finished. A replica that was promoted meanwhile and then killed came
 * back empty. INFO shows such a rewrite (`isFirst`) only indirectly: no rewrite has finished since the server started,
 * and a promoted replica reports the history of its former master.
 */
export function aofRewrite(info: ServerInfo): { readonly fault: string; readonly isFirst: boolean } | undefined {
  if (info.get('aof_rewrite_in_progress') !== '1') return undefined;
  const formerMaster = info.get('master_replid2') ?? '';
  const isFirst = info.get('aof_last_rewrite_time_sec') === '-1' && /[1-9a-f]/.test(formerMaster);
  return {
    isFirst,
    fault: isFirst
      ? 'the server was promoted before its first append-only file was written: until that has ended, ' +
        'accepted events are lost with it'
      : 'the append-only file is being rewritten: if the server has just begun to write one, ' +
        'accepted events are lost with it until that has ended',
  };
}

export function replicationFaults(info: ServerInfo, replicas: number): readonly string[] {
  const count = info.get('connected_slaves');
  if (count === undefined)
    return replicas === 0 ? [] : ['the server does not report its number of replicas (INFO replication)'];
  const connected = Number(count);
  if (connected >= replicas && (connected === 0 || replicas > 0)) return [];
  return [
    replicas === 0
      ? `the server has replicas (${connected}) and INGEST_QUEUE_REPLICAS is 0: ` +
        'a fail-over loses accepted events that no replica has received'
      : `${connected} replicas are connected and INGEST_QUEUE_REPLICAS is ${replicas}: ` +
        'no event is accepted until there are enough',
  ];
}
