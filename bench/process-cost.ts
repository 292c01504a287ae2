// CPU time and memory of processes (Linux, proc(5)). CpuBook has a resolution of 10 ms, about 0.3 % of a three-second
// run. The time of a child that has exited is its parent's.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** The user and system time of every process at one moment, in seconds. */
export class CpuBook {
  readonly atMs = performance.now();
  /** CPU time of all cores, including the time that a hypervisor took. */
  readonly busySeconds: number;
  readonly cores: number;
  readonly #seconds = new Map<number, number>();
  readonly #children = new Map<number, number[]>();

  constructor() {
    const lines = readFileSync('/proc/stat', 'utf8').split('\n');
    // Fields: user nice system idle iowait irq softirq steal.
    const total = (lines[0] ?? '').trim().split(/\s+/).slice(1, 9).map(Number);
    this.busySeconds =
      total.reduce((sum, ticks, at) => (at === 3 || at === 4 ? sum : sum + ticks), 0) / TICKS_PER_SECOND;
    this.cores = lines.filter((line) => /^cpu\d/.test(line)).length;
    for (const name of readdirSync('/proc')) {
      if (/^\d+$/.test(name)) this.#note(Number(name));
    }
  }

  /** Returns the CPU seconds of a process and its descendants; 0 if the process does not exist. */
  seconds(pid: number): number {
    let sum = this.#seconds.get(pid) ?? 0;
    for (const child of this.#children.get(pid) ?? []) sum += this.seconds(child);
    return sum;
  }

  /**
   * Returns the share of the CPU time of all cores since `before` that was used by processes other than `pid` and its
   * descendants.
   */
  foreignShare(before: CpuBook, pid: number): number {
    const elapsed = ((this.atMs - before.atMs) / 1000) * this.cores;
    const own = this.seconds(pid) - before.seconds(pid);
    return Math.max(0, (this.busySeconds - before.busySeconds - own) / elapsed);
  }

  #note(pid: number): void {
    const stat = unlessGone(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
    if (stat === undefined) return;
    // The second field is the process name in parentheses, which may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ');
    const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number) as [number, number, number, number];
    this.#seconds.set(pid, (utime + stime + cutime + cstime) / TICKS_PER_SECOND);
    const parent = Number(fields[1]);
    const siblings = this.#children.get(parent);
    if (siblings === undefined) this.#children.set(parent, [pid]);
    else siblings.push(pid);
  }
}

/** The CPU time per event of a server and its Redis between two moments, and the share of other processes. */
export function costFigures(before: CpuBook, after: CpuBook, server: number, redis: number, events: number) {
  const perEvent = (pid: number): number => ((after.seconds(pid) - before.seconds(pid)) / events) * 1e6;
  const [serverUs, redisUs] = [perEvent(server), perEvent(redis)];
  const foreignShare = after.foreignShare(before, process.pid);
  return { serverUs, redisUs, totalUs: serverUs + redisUs, foreignShare };
}

/**
 * Returns the CPU seconds of a process and its threads, without descendants, to the nanosecond. For parts of a run
 * that are too short for the 10 ms resolution of CpuBook.
 */
export function cpuSeconds(pid: number): number {
  let nanoseconds = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const used = unlessGone(() => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8'));
    nanoseconds += Number(used?.split(' ')[0] ?? 0);
  }
  return nanoseconds / 1e9;
}

export function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes ?? 0) * 1024;
}

/** A process may exit between the reading of its folder and the reading of a file in it. */
function unlessGone(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
