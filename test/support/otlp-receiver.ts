// A receiver of spans by OTLP over HTTP. It decodes them with the official generated classes of the protocol.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { atEnd } from './scope.ts';

interface KeyValue {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: { toString(): string } };
}
interface Span {
  readonly traceId: Uint8Array;
  readonly spanId: Uint8Array;
  readonly parentSpanId: Uint8Array | null;
  readonly traceState: string | null;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: { toString(): string };
  readonly endTimeUnixNano: { toString(): string };
  readonly attributes: readonly KeyValue[];
  readonly status?: { readonly code: number } | null;
}
interface TraceRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] };
    readonly scopeSpans: readonly { readonly spans: readonly Span[] }[];
  }[];
}

const ExportTraceServiceRequest = 'opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest'
  .split('.')
  .reduce<unknown>(
    (part, name) => (part as Record<string, unknown>)[name],
    createRequire(import.meta.url)('otlp-proto/build/src/generated/root.js'),
  ) as { decode(bytes: Buffer): TraceRequest };

const hex = (bytes: Uint8Array | null): string => Buffer.from(bytes ?? []).toString('hex');

const attributesOf = (list: readonly KeyValue[]): Record<string, string | number> =>
  Object.fromEntries(list.map(({ key, value }) => [key, value.stringValue || Number(value.intValue ?? 0)]));

/**
 * Ids are hexadecimal. The kind is 2 for a server, 4 for a producer and 5 for a consumer, and the status 2 an error.
 */
export type ReceivedSpan = ReturnType<typeof spanOf>;

const spanOf = (about: Record<string, string | number>, span: Span) => ({
  ...{ service: String(about['service.name']), resource: about, name: span.name, kind: span.kind },
  ...{ traceId: hex(span.traceId), spanId: hex(span.spanId), parentSpanId: hex(span.parentSpanId) },
  traceState: span.traceState ?? '',
  startNs: BigInt(span.startTimeUnixNano.toString()),
  endNs: BigInt(span.endTimeUnixNano.toString()),
  attributes: attributesOf(span.attributes),
  statusCode: span.status?.code ?? 0,
});

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  status = 200;
  url = '';

  static async start(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver();
    const server = createServer((request, response) => {
      void buffer(request).then((bytes) => {
        const isTrace = request.url === '/v1/traces' && request.headers['content-type'] === 'application/x-protobuf';
        if (isTrace && receiver.status === 200) receiver.#take(bytes);
        response.writeHead(isTrace ? receiver.status : 404, { 'content-type': 'application/x-protobuf' }).end();
      });
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    atEnd(() => {
      server.closeAllConnections();
      server.close();
    });
    receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return receiver;
  }

  #take(bytes: Buffer): void {
    for (const { resource, scopeSpans } of ExportTraceServiceRequest.decode(bytes).resourceSpans) {
      const about = attributesOf(resource.attributes);
      this.spans.push(...scopeSpans.flatMap(({ spans }) => spans).map((span) => spanOf(about, span)));
    }
  }
}
