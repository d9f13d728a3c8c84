/**
 * @module access
 * Who may steer a process: whoever is at its machine, and whoever holds its secret; as whom a request is let in; and names of
 * requests that nobody can make up. Pure; hosts say what they know of a caller. API keys stand behind the door of `keys/`.
 */
export {
  type Admission,
  ANYBODY,
  type Caller,
  type Gate,
  type Grant,
  holdsSecret,
  hostNameOf,
  type Need,
  namesThisMachine,
  OverBudget,
  type Refusal,
  refuseCaller,
  refuseStranger,
  STRANGER,
} from './grant.ts';
export { type NamedRequest, RequestNames } from './request-names.ts';
