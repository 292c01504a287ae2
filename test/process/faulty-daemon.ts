// A daemon for daemon.test.ts, with a bug in the part that FAULT names.
import '../../bin/early-signals.ts';
import { startDaemon } from '../../bin/daemon.ts';

const failIn = (part: string): void => {
  if (process.env['FAULT'] === part) throw new Error('a bug');
};

await startDaemon({
  program: 'consumer',
  summary: '',
  exits: '',
  read: () => {
    failIn('read');
    const problems = process.env['FAULT'] === 'settings' ? ['ONE=x: wrong', 'OTHER=y: wrong'] : [];
    const report = { problems, warnings: ['one thing is odd'] };
    return { config: problems.length === 0 ? {} : undefined, report, log: 'info' };
  },
  check: () => Promise.resolve([]),
  connect: () => Promise.resolve(),
  run: async (_config, _log, onStop) => {
    failIn('run');
    setInterval(() => failIn('timer'), 10);
    onStop({
      deadlineMs: process.env['FAULT'] === 'deadline' ? 50 : 60_000,
      cutOff: () => ({ text: 'two calls were cut off', exitCode: 7 }),
      stop: async () => {
        failIn('stop');
        await new Promise(() => undefined);
      },
    });
  },
});
