// A process for journal.test.ts. It opens the journal that its argument names and puts one event. Then it puts one
// event for each line of its input, and prints `put` or the error.
import { createInterface } from 'node:readline';
import { Journal } from '../../lib/send/journal.ts';
import { SYSTEM } from '../support/system.ts';

const journal = await Journal.open(process.argv[2] ?? '', SYSTEM);
await journal.put(Buffer.from('kept'));
process.stdout.write('open\n');
for await (const line of createInterface({ input: process.stdin })) {
  const outcome = await journal.put(Buffer.from(line)).then(() => 'put', String);
  process.stdout.write(`${outcome}\n`);
}
