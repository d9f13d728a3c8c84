/** Why the router's state did not do what it was asked: `unavailable` may pass, `misconfigured` will not by itself. */
export type RouterStateErrorCode = 'unavailable' | 'misconfigured' | 'closed';

/** Failure of the shared state or of a snapshot store. The message is one line for an operator. */
export class RouterStateError extends Error {
  override readonly name = 'RouterStateError';
  readonly code: RouterStateErrorCode;

  constructor(code: RouterStateErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
