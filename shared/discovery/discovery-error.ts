/** What went wrong: `unavailable` may pass, the others will not by themselves. */
export type DiscoveryErrorCode = 'unavailable' | 'misconfigured' | 'record_too_large' | 'closed';

/** Failure of a discovery operation. The message is one line for an operator: what failed, where, what to do. */
export class DiscoveryError extends Error {
  override readonly name = 'DiscoveryError';
  readonly code: DiscoveryErrorCode;

  constructor(code: DiscoveryErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
