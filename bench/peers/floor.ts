// The floor: an empty node:https server that requires a client certificate and answers every request with the same
// 202.
//
// Environment: PORT, CERT, KEY, CA (paths). If REDIS_PORT is set, each request awaits the reply to one PING.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { connect, type AddressInfo } from 'node:net';

const env = process.env;
const body = '{"id":"00000000-0000-4000-8000-000000000000","status":"accepted"}';
const headers = { 'Content-Type': 'application/json', 'Content-Length': String(body.length), 'X-Request-Id': 'bench' };

const ping = env['REDIS_PORT'] === undefined ? (done: () => void): void => done() : pinger(Number(env['REDIS_PORT']));

const server = createServer(
  {
    cert: readFileSync(env['CERT'] ?? ''),
    key: readFileSync(env['KEY'] ?? ''),
    ca: readFileSync(env['CA'] ?? ''),
    requestCert: true,
    rejectUnauthorized: true,
  },
  (_request, response) => {
    ping(() => response.writeHead(202, headers).end(body));
  },
);
server.keepAliveTimeout = 60_000;
server.listen(Number(env['PORT'] ?? 0), '127.0.0.1', () => {
  process.stdout.write(`listening on ${(server.address() as AddressInfo).port}\n`);
});
process.on('SIGTERM', () => process.exit(0));

/** Redis replies in order, with one line per reply. */
function pinger(redisPort: number): (done: () => void) => void {
  const waiting: (() => void)[] = [];
  const redis = connect(redisPort, '127.0.0.1').setNoDelay(true);
  redis.on('data', (chunk: Buffer) => {
    for (let at = chunk.indexOf('\n'); at !== -1; at = chunk.indexOf('\n', at + 1)) waiting.shift()?.();
  });
  return (done) => {
    waiting.push(done);
    redis.write('PING\r\n');
  };
}
