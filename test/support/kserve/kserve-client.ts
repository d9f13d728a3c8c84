import { type DescMethod, fromBinary, fromJson, type JsonValue, toBinary, toJson } from '@bufbuild/protobuf';
import { type ChannelCredentials, Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { GRPCInferenceService } from '../../../shared/grpc/messages/generated/grpc_service_pb.js';

/** Outcome of a call. */
export interface Outcome {
  /** Status code; 0 for success. */
  readonly code: number;
  readonly message: string;
  /** `grpc-retry-pushback-ms` of the trailers. */
  readonly retryMs?: string | undefined;
  /** Responses in proto JSON, with the field names of the proto file. */
  readonly responses: readonly Record<string, unknown>[];
}

/** A KServe client without our codecs: generated messages over grpc-js. */
export class KserveClient {
  readonly #client: Client;

  constructor(address: string, channel: ChannelCredentials = credentials.createInsecure(), options: object = {}) {
    this.#client = new Client(address, channel, { 'grpc.max_receive_message_length': -1, ...options });
  }

  close(): void {
    this.#client.close();
  }

  /** Calls `rpc` with messages in proto JSON. Never rejects. */
  async ask(
    rpc: string,
    requests: readonly unknown[],
    entries: readonly (readonly [string, string])[] = [],
  ): Promise<Outcome> {
    const method = GRPCInferenceService.methods.find(({ name }) => name === rpc);
    if (method === undefined) throw new Error(`no rpc ${rpc}`);
    const messages = requests.map((each) =>
      Buffer.from(toBinary(method.input, fromJson(method.input, each as JsonValue))),
    );
    return this.askBytes(method, messages, entries);
  }

  /** Encodes an inference request. */
  async bytesOf(request: unknown): Promise<Buffer> {
    const { input } = methodOf('ModelInfer');
    return Buffer.from(toBinary(input, fromJson(input, request as JsonValue)));
  }

  /** Returns an inference request as the generated code writes it in JSON. */
  async canonical(request: unknown): Promise<Record<string, unknown>> {
    const { input } = methodOf('ModelInfer');
    const json = toJson(input, fromJson(input, request as JsonValue), { useProtoFieldName: true });
    return json as Record<string, unknown>;
  }

  askBytes(
    method: DescMethod,
    messages: readonly Buffer[],
    entries: readonly (readonly [string, string])[] = [],
  ): Promise<Outcome> {
    const metadata = new Metadata();
    for (const [key, value] of entries) metadata.add(key, value);
    const path = `/${method.parent.typeName}/${method.name}`;
    const same = (bytes: Buffer): Buffer => bytes;
    const responses: Record<string, unknown>[] = [];
    const seen = (bytes: Buffer): void => {
      const json = toJson(method.output, fromBinary(method.output, bytes), { useProtoFieldName: true });
      responses.push(json as Record<string, unknown>);
    };
    return new Promise((resolve) => {
      const over = (error?: ServiceError | null): void =>
        resolve({
          code: error?.code ?? 0,
          message: error?.details ?? '',
          retryMs: error?.metadata?.get('grpc-retry-pushback-ms')[0]?.toString(),
          responses,
        });
      if (method.methodKind === 'unary') {
        this.#client.makeUnaryRequest(path, same, same, messages[0] ?? Buffer.alloc(0), metadata, (error, bytes) => {
          if (bytes !== undefined) seen(bytes);
          over(error);
        });
        return;
      }
      const call = this.#client.makeBidiStreamRequest(path, same, same, metadata);
      call.on('data', seen);
      call.on('error', over);
      call.on('end', () => over());
      for (const message of messages) call.write(message);
      call.end();
    });
  }
}

export function methodOf(rpc: string): DescMethod {
  const method = GRPCInferenceService.methods.find(({ name }) => name === rpc);
  if (method === undefined) throw new Error(`no rpc ${rpc}`);
  return method;
}
