// A program for log-output.test.ts. It logs LINES lines in turns of the event loop, and writes the longest turn to
// standard error. Then it exits as END says.
import { createLog } from '../../lib/process/log.ts';

const lines = Number(process.env['LINES']);
const log = createLog('noisy', 'info');
process.stdout.on('error', () => undefined);
let longestMs = 0;
for (let at = 0; at < lines;) {
  const start = performance.now();
  for (let turn = 0; turn < 100 && at < lines; turn += 1) log.info({ at: at++, text: 'x'.repeat(200) }, 'a line');
  longestMs = Math.max(longestMs, performance.now() - start);
  await new Promise((resolve) => setImmediate(resolve));
}
process.stderr.write(`longest turn: ${longestMs}\n`);
if (process.env['END'] === 'throw') {
  process.on('uncaughtException', (cause) => {
    log.fatal({ err: cause }, 'uncaught error');
    process.exit(1);
  });
  setImmediate(() => {
    throw new Error('a bug');
  });
} else if (process.env['END'] === 'exit') process.exit(0);
else setInterval(() => log.info({ at: lines }, 'later'), 50);
