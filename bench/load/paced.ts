// PacedLoad in a process of its own: argv[2] contains LoadOptions as JSON, and the result is printed as one line of
// JSON. The lines `warm` and `done` on standard error mark the start and the end of the measured part.
import type { LoadOptions } from './options.ts';
import { PacedLoad } from './paced-load.ts';
import { PRINTED_MARKS, printResult } from './tally.ts';

const load = await PacedLoad.open(JSON.parse(process.argv[2] ?? '{}') as LoadOptions);
printResult(await load.run(PRINTED_MARKS));
