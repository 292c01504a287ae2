// The peer in C and LuaJIT: nginx with one worker, mutual TLS, and one plain XADD per request over a kept-alive
// connection. It does less than the gateway: it finds the id and the type by searching the body, does not check for
// duplicate ids, and neither counts nor logs. It is installed from Debian's packages (bench/peers/ensure-nginx).
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../test/support/free-port.ts';
import { eventually } from '../../test/support/scope.ts';
import type { BenchEnvironment, RunningServer } from '../bench-environment.ts';

const LUA = `
local redis = require 'nginx.redis'
local match = string.match
local function refuse(status)
  ngx.status = status
  ngx.header['Content-Type'] = 'application/json'
  ngx.print('{"status":"refused"}')
end
ngx.req.read_body()
local body = ngx.req.get_body_data()
local id = body and match(body, '"id"%s*:%s*"([%w%p ]-)"')
if not id or #id == 0 or #id > 256 or not match(body, '"type"%s*:%s*"[%w_.-]+"') then return refuse(400) end
local client = redis:new()
client:set_timeout(1000)
if not client:connect('127.0.0.1', REDIS_PORT) then return refuse(503) end
local entry = client:xadd('ingest', '*', 'producer', ngx.var.ssl_client_s_dn, 'body', body)
if not entry then return refuse(503) end
client:set_keepalive(60000, 512)
local answer = '{"id":"' .. id .. '","status":"accepted"}'
ngx.status = 202
ngx.header['Content-Type'] = 'application/json'
ngx.header['Content-Length'] = #answer
ngx.header['X-Request-Id'] = ngx.var.http_x_request_id
ngx.print(answer)
`;

/** Installs nginx if possible. Otherwise, returns `undefined` and prints a line on standard error. */
export function ensureNginx(): string | undefined {
  const found = spawnSync(join(import.meta.dirname, 'ensure-nginx'), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return found.status === 0 ? found.stdout.trim() : undefined;
}

export async function startNginx(
  binary: string,
  environment: BenchEnvironment,
  redis: RunningServer,
): Promise<RunningServer> {
  const folder = mkdtempSync(join(environment.folder, 'nginx-'));
  const port = await freePort();
  const script = join(folder, 'accept.lua');
  writeFileSync(script, LUA.replace('REDIS_PORT', String(redis.port)));
  const file = join(folder, 'nginx.conf');
  writeFileSync(file, configuration(environment, port, script));
  const master = environment.silent('nginx', binary, ['-p', folder, '-e', 'error.log', '-c', file], port);
  return { ...master, pid: await workerOf(master.pid) };
}

/** Waits for the worker process, which handles all requests and is forked only after the port is open. */
const workerOf = (master: number): Promise<number> =>
  eventually('nginx has a worker', () => Number.parseInt(readFileSync(childrenOf(master), 'utf8'), 10) || undefined);

const childrenOf = (pid: number): string => `/proc/${pid}/task/${pid}/children`;

function configuration({ certificates }: BenchEnvironment, port: number, script: string): string {
  // If root started nginx, its worker would run as `nobody`, which cannot read the folder.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  return `
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
error_log error.log error;
pid nginx.pid;
${user}
events { worker_connections 8192; }
http {
  access_log off;
  lua_package_path '/usr/share/lua/5.1/?.lua;;';
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  client_body_buffer_size 256k;
  client_max_body_size 256k;
  keepalive_requests 1000000000;
  keepalive_timeout 60s;
  tcp_nodelay on;
  server {
    listen 127.0.0.1:${port} ssl reuseport;
    ssl_certificate ${certificates.cert};
    ssl_certificate_key ${certificates.key};
    ssl_client_certificate ${certificates.ca};
    ssl_verify_client on;
    ssl_protocols TLSv1.2 TLSv1.3;
    location = /events { content_by_lua_file ${script}; }
  }
}
`;
}
