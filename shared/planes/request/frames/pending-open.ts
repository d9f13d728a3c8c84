import type { ClientCall } from '../client-call.ts';
import type { PlaneRequest } from '../types.ts';
import type { CallTarget } from './byte-channel.ts';

/** A call with what is needed to send it, maybe over another connection. */
export interface PendingOpen<Target extends CallTarget> {
  readonly call: ClientCall;
  readonly target: Target;
  readonly request: PlaneRequest;
}
