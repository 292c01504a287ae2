// A receiver of spans by OTLP over HTTP. It decodes them with the official generated classes of the protocol.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { atEnd } from './scope.ts';

/** A received span. Its ids are hexadecimal. */
export interface ReceivedSpan {
  readonly service: string;
  readonly resource: Readonly<Record<string, string | number>>;
  readonly name: string;
  /** The SpanKind: 2 is a server, 4 a producer, 5 a consumer. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  /** The id of the parent span. Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** The status of the span: 2 is an error. */
  readonly statusCode: number;
}

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

const proto = createRequire(import.meta.url)('otlp-proto/build/src/generated/root.js') as {
  readonly opentelemetry: {
    readonly proto: {
      readonly collector: {
        readonly trace: {
          readonly v1: { readonly ExportTraceServiceRequest: { decode(bytes: Buffer): TraceRequest } };
        };
      };
    };
  };
};
const { ExportTraceServiceRequest } = proto.opentelemetry.proto.collector.trace.v1;

const hex = (bytes: Uint8Array | null): string => Buffer.from(bytes ?? []).toString('hex');

const attributesOf = (list: readonly KeyValue[]): Record<string, string | number> =>
  Object.fromEntries(list.map(({ key, value }) => [key, value.stringValue || Number(value.intValue ?? 0)]));

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  status = 200;
  url = '';

  static async start(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver();
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const isTrace = request.url === '/v1/traces' && request.headers['content-type'] === 'application/x-protobuf';
        if (isTrace && receiver.status === 200) receiver.#take(Buffer.concat(chunks));
        response.writeHead(isTrace ? receiver.status : 404, { 'content-type': 'application/x-protobuf' }).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
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
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        this.spans.push({
          service: String(about['service.name']),
          resource: about,
          name: span.name,
          kind: span.kind,
          traceId: hex(span.traceId),
          spanId: hex(span.spanId),
          parentSpanId: hex(span.parentSpanId),
          traceState: span.traceState ?? '',
          startNs: BigInt(span.startTimeUnixNano.toString()),
          endNs: BigInt(span.endTimeUnixNano.toString()),
          attributes: attributesOf(span.attributes),
          statusCode: span.status?.code ?? 0,
        });
      }
    }
  }
}
