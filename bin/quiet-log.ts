import { createLog } from '../lib/process/log.ts';

/** A log without warnings, for commands that report connection failures themselves. */
export const quietLog = createLog('check', 'error');
