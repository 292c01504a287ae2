// test/http/server.test.ts has the rules of the header; here a real balancer sends it.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { event, TestGateway, RawConnection, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis, freePort } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { tool } from '../support/tool.ts';
import { askRaw, postText } from '../support/wire.ts';

const HAPROXY = tool('haproxy', 'haproxy');

it("HAProxy passes on clients' addresses, and its own health checks", async () => {
  const [redis, pki, port, adminPort] = await Promise.all([TestRedis.start(), Pki.create(), freePort(), freePort()]);
  const producer = await pki.producer('one');
  const gateway = await TestGateway.start(redis, pki, {
    INGEST_ADMIN_ADDR: `127.0.0.1:${adminPort}`,
    INGEST_LOG_LEVEL: 'debug',
    INGEST_PROXY_FROM: '127.0.0.1',
  });
  const file = join(temporaryFolder(), 'haproxy.cfg');
  const server = `127.0.0.1:${gateway.port} send-proxy-v2 proxy-v2-options crc32c,unique-id inter 100 rise 1`;
  writeFileSync(
    file,
    `defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend producers
  bind 127.0.0.1:${port}
  bind [::1]:${port}
  unique-id-format %{+X}o%ci:%cp_%Ts
  default_backend gateways
backend gateways
  option httpchk GET /health/ready
  server by-readiness ${server} check port ${adminPort}
  server by-tls ${server} check check-send-proxy check-ssl verify none
`,
  );
  const balancer = new TestProcess(HAPROXY, ['-db', '-f', file], {});
  await eventually('the balancer listens', async () => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
    const isOpen = socket.readyState === 'open';
    socket.destroy();
    return isOpen;
  });
  await gateway.line(/"address":"127\.0\.0\.1".*"target":"\/health\/ready"/);
  for (const [host, localAddress] of [
    ['127.0.0.1', '127.0.0.77'],
    ['::1', '::1'],
  ] as const) {
    for (let at = 0; at < 20; at += 1) {
      const { certificate: ca } = pki.authority;
      const tcp = connect({ host, port, localAddress });
      const connection = new RawConnection(connectTls({ socket: tcp, host: '127.0.0.1', ca, ...producer }));
      const requestId = `${host}-${at}`;
      assert.equal((await askRaw(connection, postText(event(requestId), [`X-Request-Id: ${requestId}`]))).status, 202);
      const line = await gateway.line(new RegExp(`"requestId":"${requestId}".*request answered`));
      assert.equal((JSON.parse(line) as { address?: unknown }).address, localAddress);
      connection.socket.destroy();
    }
  }
  const metrics = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  assert.doesNotMatch(metrics, /handshake_failures_total\{reason="proxy_\w+"\} [1-9]/);
  assert.equal(balancer.child.exitCode, null, balancer.output);
});
