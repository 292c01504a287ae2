// The core of the suite once more, with every request left to node:http (INGEST_HTTP_READER=node). That both readers
// answer alike is held by two-readers.test.ts.

process.env['TEST_HTTP_READER'] = 'node';
await import('./acceptance.test.ts');
await import('./hostile-input.test.ts');
