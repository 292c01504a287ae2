// The way of an event once more, with every request left to node:http (INGEST_HTTP_READER=node).
process.env['TEST_HTTP_READER'] = 'node';
await import('./acceptance.test.ts');
