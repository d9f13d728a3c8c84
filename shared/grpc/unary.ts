import { framed } from './message-frames.ts';
import { GrpcStatus, STATUS, statusOf } from './status.ts';
import type { GrpcCall, GrpcMethod } from './types.ts';

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
