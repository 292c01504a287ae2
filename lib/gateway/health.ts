// The process endpoints: alive, ready, metrics. They need no certificate.
import type { Queue } from '../ingest/queue.ts';
import type { Answer } from '../http/respond.ts';
import { json } from './answers.ts';

/** The process runs and its event loop turns. It says nothing of the queue (specification, "Process endpoints"). */
export const live = (): Answer => json(200, { status: 'live' });

/** Ready while the queue answered a recent probe and the process is not stopping. */
export function ready(queue: Queue, draining: boolean): Answer {
  if (draining) return json(503, { status: 'draining' });
  const state = queue.state();
  return state.available ? json(200, { status: 'ready' }) : json(503, { status: 'unavailable', reason: state.reason });
}
