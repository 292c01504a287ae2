// Repeats the core suites with every request read by node:http (INGEST_HTTP_READER=node).

process.env['TEST_HTTP_READER'] = 'node';
await import('./acceptance.test.ts');
await import('./hostile-input.test.ts');
