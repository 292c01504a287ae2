// A log for looks at things.
import { createLog } from '../lib/process/log.ts';

/** For connections whose troubles are the result: their own lines would only repeat it. */
export const quietLog = createLog('check', 'error');
