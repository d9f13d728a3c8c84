import { framed } from './message-frames.ts';
import { GrpcStatus, STATUS, statusOf } from './status.ts';

/** Hears that no client waits for a call any more. */
export interface CallListener {
  /** The client is gone. */
  left(): void;
  /** The time is over that the client gives; `left` follows where there is still something to leave. */
  late(): void;
}

/** One call, as methods get it. Nothing of its messages is read before it is asked for. */
export interface GrpcCall {
  /** `/package.Service/Method` */
  readonly path: string;
  /** First value of a metadata entry by its lower-case name. */
  header(name: string): string | undefined;
  /** Lower-case names of metadata entries, each once, without those of HTTP/2. */
  headerNames(): readonly string[];
  /** Aborts when the client is gone or its time is over: no client waits for the call any more. */
  readonly closed: AbortSignal;
  /** Tells `listener`, at once where that has happened already. Returns what ends that. Cheaper than a signal, of which each call needs two. */
  watch(listener: CallListener): () => void;
  /** It has ended, or is about to: nothing more is written or received. */
  readonly isOver: boolean;
  /**
   * Hands the next message to `onMessage`, once it is whole; undefined when the client has said all. One at a time: what comes
   * behind it stays in the client's window.
   */
  receive(onMessage: (message: Buffer | undefined) => void): void;
  /**
   * Writes a message with its prefix (`framed`), which may come in pieces; those of one turn leave together. None is copied
   * that is large: it must not change any more.
   */
  write(frame: Buffer | readonly Buffer[]): void;
  /** The client reads more slowly than is written. */
  isBlocked(): boolean;
  /** Runs `callback` once when the client has read enough, or will read no more. */
  onUnblocked(callback: () => void): void;
  /** Ends well, or with `status`. Idempotent. */
  end(status?: GrpcStatus): void;
}

/** A method of a service. What `serve` throws, or rejects with, ends the call. */
export interface GrpcMethod {
  readonly path: string;
  /** Anybody may call it: its messages are small, and who calls it is not let in by that. @default false */
  readonly isOpenToAll?: boolean;
  readonly serve: (call: GrpcCall) => void | Promise<void>;
}

/**
 * A method of one message and one response.
 * @param admit looks at the caller before its message is read; throws what refuses it
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

/** A method of one message and one response, for anybody. */
export function openUnary(path: string, answer: (message: Buffer, call: GrpcCall) => Uint8Array): GrpcMethod {
  return { ...unary(path, answer), isOpenToAll: true };
}

function endWith(call: GrpcCall, response: Uint8Array): void {
  call.write(framed(response));
  call.end();
}

/** Hands the only message of a call to `onMessage`; what that throws ends the call. */
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
