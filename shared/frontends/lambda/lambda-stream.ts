/** Types of the Node runtime of Lambda that are used here; the runtime provides them, no package has to. */

/** Head of a streamed HTTP answer: what the runtime writes before the body. */
export interface ResponsePrelude {
  readonly statusCode: number;
  /** One string a name. */
  readonly headers: Readonly<Record<string, string>>;
  /** `Set-Cookie` values. */
  readonly cookies?: readonly string[];
}

/**
 * The runtime's response stream: a node writable with a part of its interface. Its `close` says nothing of the client, who
 * can leave without any sign (docs/architecture.md).
 */
export interface LambdaResponseStream {
  /** False when more than the high-water mark is waiting; `drain` follows. */
  write(chunk: string | Uint8Array): boolean;
  end(): void;
  on(event: 'drain' | 'finish' | 'close', listener: () => void): void;
  on(event: 'error', listener: (error: Error) => void): void;
}

/** `awslambda.HttpResponseStream.from`: gives a stream that writes `prelude` before the first byte of the body. */
export type OpenHttpStream = (stream: LambdaResponseStream, prelude: ResponsePrelude) => LambdaResponseStream;

/** Second argument of a handler. */
export interface LambdaContext {
  readonly awsRequestId: string;
  /** False: the next request is taken when the handler is done, whatever sockets and timers are still open. */
  callbackWaitsForEmptyEventLoop: boolean;
  getRemainingTimeInMillis(): number;
}

/** A handler that writes its answer to `stream`. */
export type StreamingHandler = (event: unknown, stream: LambdaResponseStream, context: LambdaContext) => Promise<void>;

/** The global `awslambda` of the Node runtime. */
export interface LambdaRuntime {
  streamifyResponse(handler: StreamingHandler): StreamingHandler;
  readonly HttpResponseStream: { readonly from: OpenHttpStream };
}
