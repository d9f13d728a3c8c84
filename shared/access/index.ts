/**
 * @module access
 * Who may steer a process: whoever is at its machine, and whoever holds its secret. Pure; hosts say what they know of a
 * caller.
 */
export { type Admission, holdsSecret, type Refusal, refuseCaller } from './admission.ts';
export { type Caller, hostNameOf, namesThisMachine, refuseStranger } from './caller.ts';
