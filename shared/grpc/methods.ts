import { framed } from './message-frames.ts';
import { GrpcStatus, STATUS, statusOf } from './status.ts';

/** A listener that is called when no client waits for a call any more. */
export interface CallListener {
  /** Called when the client has left. */
  left(): void;
  /** Called when the client's `grpc-timeout` has passed; `left` follows if the listener is still registered. */
  late(): void;
}

/** One call, as its method sees it. The server reads a message only after the method asks for it. */
export interface GrpcCall {
  /** `/package.Service/Method` */
  readonly path: string;
  /** Returns the first value of the metadata entry with this lower-case name. */
  header(name: string): string | undefined;
  /** Returns the lower-case names of the metadata entries, each once, without those of HTTP/2. */
  headerNames(): readonly string[];
  /** Aborts when the client has left or its timeout has passed: no client waits for the call any more. */
  readonly closed: AbortSignal;
  /**
   * Calls `listener` when no client waits any more, at once if that has happened already. Returns a function that
   * removes the listener. This is cheaper than a signal, because each call would need two.
   */
  watch(listener: CallListener): () => void;
  /** Whether the call has ended or is about to. Nothing more can be written or received then. */
  readonly isOver: boolean;
  /**
   * Calls `onMessage` once with the next complete message, or with undefined after the last one. Later messages stay in
   * the client's window until the next `receive`.
   */
  receive(onMessage: (message: Buffer | undefined) => void): void;
  /**
   * Writes a message with its prefix (`framed`), whole or in pieces. The frames of one turn of the event loop leave
   * together. A large frame is not copied, so its bytes must not change any more.
   */
  write(frame: Buffer | readonly Buffer[]): void;
  /** Returns whether the client reads more slowly than the method writes. */
  isBlocked(): boolean;
  /** Runs `callback` once when the client has read enough, or will read no more. */
  onUnblocked(callback: () => void): void;
  /** Ends the call with status OK, or with `status`. Idempotent. */
  end(status?: GrpcStatus): void;
}

/** Runs `next` once the client of a call has read what was written. Does nothing if the call is over by then. */
export function onceRead(call: GrpcCall, next: () => void): void {
  if (call.isOver) return;
  if (call.isBlocked()) call.onUnblocked(() => onceRead(call, next));
  else next();
}

/** A method of a service. If `serve` throws or rejects, the error ends the call. */
export interface GrpcMethod {
  readonly path: string;
  /**
   * Whether any client may call it. If so, its messages are small, and a call does not make the connection trusted.
   * @default false
   */
  readonly isOpenToAll?: boolean;
  readonly serve: (call: GrpcCall) => void | Promise<void>;
}

/**
 * Returns a method that takes one message and gives one response.
 * @param admit checks the caller before the server reads its message, and throws the error that refuses it
 */
export function unary(
  path: string,
  answer: (message: Buffer, call: GrpcCall) => Uint8Array | Promise<Uint8Array>,
  admit?: (call: GrpcCall) => unknown,
): GrpcMethod {
  const respond = (call: GrpcCall): void => {
    receiveOne(call, (message) => {
      const response = answer(message, call);
      if (!(response instanceof Promise)) return endWith(call, response);
      response.then(
        (bytes) => endWith(call, bytes),
        (thrown: unknown) => call.end(statusOf(thrown)),
      );
    });
  };
  return {
    path,
    serve: (call) => {
      const admitted = admit?.(call);
      if (admitted instanceof Promise) return admitted.then(() => respond(call));
      respond(call);
    },
  };
}

/** Returns a method that takes one message and gives one response, and that any client may call. */
export function openUnary(path: string, answer: (message: Buffer, call: GrpcCall) => Uint8Array): GrpcMethod {
  return { ...unary(path, answer), isOpenToAll: true };
}

function endWith(call: GrpcCall, response: Uint8Array): void {
  call.write(framed(response));
  call.end();
}

/**
 * Passes the only message of a call to `onMessage`. If that throws, or no message comes, the call ends with an error.
 */
export function receiveOne(call: GrpcCall, onMessage: (message: Buffer) => void): void {
  call.receive((message) => {
    try {
      if (message === undefined) throw new GrpcStatus(STATUS.INVALID_ARGUMENT, 'the call has no message');
      onMessage(message);
    } catch (thrown) {
      call.end(statusOf(thrown));
    }
  });
}
