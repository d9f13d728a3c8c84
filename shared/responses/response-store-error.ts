/** Why a store did not do what it was asked. */
export type ResponseStoreErrorCode = 'conflict' | 'too_large' | 'unavailable' | 'misconfigured';

/** A failure of the store itself. `message` is one line for operators, never for clients. */
export class ResponseStoreError extends Error {
  override readonly name = 'ResponseStoreError';
  readonly code: ResponseStoreErrorCode;

  constructor(code: ResponseStoreErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
