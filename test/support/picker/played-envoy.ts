import type { MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials, type ServiceError } from '@grpc/grpc-js';
import {
  BodySendMode,
  decodeMessage,
  encodeMessage,
  ProcessingRequestSchema,
  ProcessingResponseSchema,
} from '../../../shared/grpc/index.ts';

const PROCESS = '/envoy.service.ext_proc.v3.ExternalProcessor/Process';

type RequestInit = MessageInitShape<typeof ProcessingRequestSchema>;
type Answer = MessageShape<typeof ProcessingResponseSchema>;

/** One request as a gateway has it. */
export interface PlayedRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** @default the whole body */
  readonly chunkBytes?: number;
  readonly hasTrailers?: boolean;
  /**
   * Modes that the first message names. null = it names none, as data planes other than Envoy.
   * @default FULL_DUPLEX_STREAMED
   */
  readonly modes?: { readonly request: BodySendMode; readonly response: BodySendMode } | null;
  /** Endpoints to which the request may go. @default any */
  readonly subset?: string | readonly string[];
}

/** A request after the picker has chosen its endpoint. */
export interface Routed {
  readonly kind: 'routed';
  readonly headers: Readonly<Record<string, string>>;
  readonly removed: readonly string[];
  readonly metadata: unknown;
  /** The body that goes to the endpoint. */
  readonly body: string;
}

export interface Refused {
  readonly kind: 'refused';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Envoy's side of the protocol, in the order of its messages. */
export class PlayedEnvoy {
  readonly #client: Client;

  /** @param isSecure whether the picker serves TLS. Its certificate is not verified, as gateways do. @default false */
  constructor(address: string, isSecure = false) {
    const channel = isSecure
      ? credentials.createSsl(null, null, null, { rejectUnauthorized: false })
      : credentials.createInsecure();
    this.#client = new Client(address, channel, { 'grpc.max_receive_message_length': -1 });
  }

  open(): PlayedStream {
    return new PlayedStream(
      this.#client.makeBidiStreamRequest(
        PROCESS,
        (init: RequestInit) => Buffer.from(encodeMessage(ProcessingRequestSchema, init)),
        (bytes) => decodeMessage(ProcessingResponseSchema, bytes),
      ),
    );
  }

  close(): void {
    this.#client.close();
  }
}

export class PlayedStream {
  /** Resolves with the code and text of the status with which the call ends. */
  readonly over: Promise<{ readonly code: number; readonly details: string }>;
  readonly #call: ClientDuplexStream<RequestInit, Answer>;
  readonly #answers: Answer[] = [];
  #read = 0;
  #isOver = false;
  #wake: (() => void) | undefined;
  #requestMode = BodySendMode.FULL_DUPLEX_STREAMED;
  #responseMode = BodySendMode.FULL_DUPLEX_STREAMED;

  constructor(call: ClientDuplexStream<RequestInit, Answer>) {
    this.#call = call;
    call.on('data', (answer: Answer) => {
      this.#answers.push(answer);
      this.#wake?.();
    });
    call.on('error', (_: ServiceError) => {}); // `status` follows
    this.over = new Promise((resolve) => {
      call.on('status', ({ code, details }) => {
        this.#isOver = true;
        this.#wake?.();
        resolve({ code, details });
      });
    });
  }

  send(init: RequestInit): void {
    this.#call.write(init);
  }

  /** Resolves with the next answer. Rejects if the call ends without one. */
  async next(): Promise<Answer> {
    for (;;) {
      const answer = this.#answers.shift();
      if (answer !== undefined) {
        this.#read++;
        return answer;
      }
      if (this.#isOver) throw new Error(`the call has ended: ${JSON.stringify(await this.over)}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Number of answers that were read. */
  get read(): number {
    return this.#read;
  }

  /** Number of answers that were not read. */
  get unread(): number {
    return this.#answers.length;
  }

  halfClose(): void {
    this.#call.end();
  }

  cancel(): void {
    this.#call.cancel();
  }

  /** Sends the head of a request. */
  sendHead({ method = 'POST', path, headers = {}, body, modes, subset }: PlayedRequest): void {
    const { request, response } = modes ?? { request: FULL_DUPLEX, response: FULL_DUPLEX };
    this.#requestMode = request;
    this.#responseMode = response;
    const all = { ':method': method, ':path': path, ':authority': 'gateway', ':scheme': 'http', ...headers };
    this.send({
      request: { case: 'requestHeaders', value: { headers: headersOf(all), endOfStream: body === undefined } },
      ...(modes === null ? {} : { protocolConfig: { requestBodyMode: request, responseBodyMode: response } }),
      ...(subset === undefined
        ? {}
        : {
            metadataContext: {
              filterMetadata: {
                'envoy.lb.subset_hint': {
                  'x-gateway-destination-endpoint-subset': typeof subset === 'string' ? subset : [...subset],
                },
              },
            },
          }),
    });
  }

  /** Plays the request until it is routed or refused, as Envoy does in the mode that `request` names. */
  async request(asked: PlayedRequest): Promise<Routed | Refused> {
    const { body, hasTrailers = false } = asked;
    this.sendHead(asked);
    if (body === undefined) return this.#outcome(await this.next(), '');
    if (this.#requestMode === BodySendMode.BUFFERED) {
      const passed = await this.next();
      if (passed.response.case !== 'requestHeaders') return this.#outcome(passed, '');
      this.sendBody(body, !hasTrailers);
      return this.#outcome(await this.next(), body);
    }
    const bytes = Buffer.from(body);
    const { chunkBytes = bytes.length } = asked;
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      const chunk = bytes.subarray(at, at + chunkBytes);
      this.sendBody(chunk, !hasTrailers && at + chunkBytes >= bytes.length);
    }
    if (hasTrailers) this.send({ request: { case: 'requestTrailers', value: {} } });
    const first = await this.next();
    if (first.response.case === 'immediateResponse') return this.#outcome(first, '');
    return this.#outcome(first, await this.#givenBody(hasTrailers));
  }

  sendBody(body: string | Uint8Array, endOfStream: boolean): void {
    this.send({ request: { case: 'requestBody', value: { body: Buffer.from(body as Uint8Array), endOfStream } } });
  }

  /** Plays the answer of the endpoint, and resolves with the body that goes to the client. */
  async respond(
    status: number,
    chunks: readonly string[],
    headers: Readonly<Record<string, string>> = {},
    served?: string,
  ): Promise<string> {
    await this.respondHead(status, headers, served, chunks.length === 0);
    let body = '';
    for (const [index, chunk] of chunks.entries()) {
      body += await this.respondPart(chunk, index === chunks.length - 1);
    }
    return body;
  }

  /** Plays the head of the endpoint's answer. @param served endpoint that answers. @default Envoy does not say */
  async respondHead(
    status: number,
    headers: Readonly<Record<string, string>> = {},
    served?: string,
    endOfStream = false,
  ): Promise<void> {
    const all = { ':status': String(status), 'content-type': 'application/json', ...headers };
    this.send({
      request: { case: 'responseHeaders', value: { headers: headersOf(all), endOfStream } },
      ...(served === undefined
        ? {}
        : {
            metadataContext: {
              filterMetadata: { 'envoy.lb': { 'x-gateway-destination-endpoint-served': served } },
            },
          }),
    });
    expectStep(await this.next(), 'responseHeaders');
  }

  /** Plays a part of the answer's body, and resolves with what goes to the client. */
  async respondPart(chunk: string, endOfStream: boolean): Promise<string> {
    this.send({ request: { case: 'responseBody', value: { body: Buffer.from(chunk), endOfStream } } });
    const answer = await this.next();
    expectStep(answer, 'responseBody');
    if (this.#responseMode !== BodySendMode.FULL_DUPLEX_STREAMED) return chunk;
    const { body, endOfStream: isLast } = streamedOf(answer);
    if (isLast !== endOfStream) throw new Error(`end_of_stream is ${isLast}`);
    return Buffer.from(body).toString();
  }

  /** Reads the body that the picker gives back, and the answer to the trailers. */
  async #givenBody(hasTrailers: boolean): Promise<string> {
    const parts: Uint8Array[] = [];
    for (;;) {
      const answer = await this.next();
      if (answer.response.case === 'requestTrailers') break;
      expectStep(answer, 'requestBody');
      const { body, endOfStream } = streamedOf(answer);
      if (body.length > 65_536) throw new Error(`a chunk has ${body.length} bytes`);
      parts.push(body);
      if (endOfStream !== true) continue;
      if (hasTrailers) throw new Error('the body ends before its trailers');
      break;
    }
    return Buffer.concat(parts).toString();
  }

  #outcome(answer: Answer, body: string): Routed | Refused {
    const { response, dynamicMetadata: metadata } = answer;
    if (response.case === 'immediateResponse') {
      const { status, headers, body: bytes } = response.value;
      const set = setOf(headers?.setHeaders ?? []);
      return { kind: 'refused', status: status?.code ?? 0, headers: set, body: Buffer.from(bytes).toString() };
    }
    if (response.case !== 'requestHeaders' && response.case !== 'requestBody') {
      throw new Error(`no decision but ${response.case}`);
    }
    const mutation = response.value.response?.headerMutation;
    const set = setOf(mutation?.setHeaders ?? []);
    return { kind: 'routed', headers: set, removed: mutation?.removeHeaders ?? [], metadata, body };
  }
}

const FULL_DUPLEX = BodySendMode.FULL_DUPLEX_STREAMED;

function headersOf(headers: Readonly<Record<string, string>>) {
  return { headers: Object.entries(headers).map(([key, value]) => ({ key, rawValue: Buffer.from(value) })) };
}

type SetHeader = { readonly header?: { readonly key: string; readonly rawValue: Uint8Array } | undefined };

function setOf(set: readonly SetHeader[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    set.map(({ header }) => [header?.key ?? '', Buffer.from(header?.rawValue ?? []).toString()]),
  );
}

function expectStep({ response }: Answer, step: Answer['response']['case']): void {
  if (response.case !== step) throw new Error(`${response.case} in place of ${step}`);
}

function streamedOf({ response }: Answer) {
  const isBody = response.case === 'requestBody' || response.case === 'responseBody';
  const mutation = isBody ? response.value.response?.bodyMutation?.mutation : undefined;
  if (mutation?.case !== 'streamedResponse') throw new Error('a body that is not given back');
  return mutation.value;
}
