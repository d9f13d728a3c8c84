/**
 * @module access
 * Who may steer a process: whoever is at its machine, and whoever holds its secret. Pure; hosts say what they know of a
 * caller.
 */
export { type Admission, type Refusal, refuseCaller } from './admission.ts';
export { type Caller, refuseStranger } from './caller.ts';
export { hostNameOf, namesThisMachine } from './host-name.ts';
export { holdsSecret } from './secret.ts';
