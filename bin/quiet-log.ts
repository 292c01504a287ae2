import { createLog } from '../lib/process/log.ts';

/** A log for commands that report connection failures themselves. */
export const quietLog = createLog('check', 'error');
