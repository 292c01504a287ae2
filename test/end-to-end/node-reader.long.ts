// Repeats the core suites with node:http reading every request (INGEST_HTTP_READER=node).

process.env['TEST_HTTP_READER'] = 'node';
await import('./acceptance.test.ts');
await import('./hostile-input.test.ts');
