// The floor: an empty node:https server that answers a constant 202. Whatever the gateway costs above it is ours.
//
// Environment: PORT, CERT, KEY, CA (paths). It asks for a client certificate as the gateway does, and looks at nothing.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';

const env = process.env;
const body = '{"id":"00000000-0000-4000-8000-000000000000","status":"accepted"}';
const headers = { 'Content-Type': 'application/json', 'Content-Length': String(body.length), 'X-Request-Id': 'bench' };

const server = createServer(
  {
    cert: readFileSync(env['CERT'] ?? ''),
    key: readFileSync(env['KEY'] ?? ''),
    ca: readFileSync(env['CA'] ?? ''),
    requestCert: true,
    rejectUnauthorized: true,
  },
  (_request, response) => {
    response.writeHead(202, headers);
    response.end(body);
  },
);
server.keepAliveTimeout = 60_000;
server.listen(Number(env['PORT'] ?? 0), '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`listening on ${typeof address === 'object' && address !== null ? address.port : ''}\n`);
});
process.on('SIGTERM', () => process.exit(0));
