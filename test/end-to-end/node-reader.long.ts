// The core of the suite once more, with every request left to node:http (INGEST_HTTP_READER=node); node-reader.test.ts has
// the rest of it.
process.env['TEST_HTTP_READER'] = 'node';
await import('./hostile-bodies.test.ts');
await import('./hostile-input.test.ts');
await import('./pipelining.test.ts');
