/**
 * @module access
 * Who may steer a process: whoever is at its machine, and whoever holds its secret; as whom a request is let in; and names of
 * requests that nobody can make up. Pure; hosts say what they know of a caller. API keys stand behind the door of `keys/`.
 */
export { type Admission, holdsSecret, type Refusal, refuseCaller } from './admission.ts';
export { type Caller, hostNameOf, namesThisMachine, refuseStranger } from './caller.ts';
export { ANYBODY, type Gate, type Grant, type Need, OverBudget, STRANGER } from './grant.ts';
export { type NamedRequest, RequestNames } from './request-names.ts';
