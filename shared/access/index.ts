/**
 * @module access
 * Who may steer a process: whoever is at its machine, and whoever holds its secret; as whom a request is let in; and names of
 * requests that nobody can make up. API keys are records in a DynamoDB table or a file, which hold no secret; their gate checks them
 * from memory, with a read a key and `STATOR_KEY_CACHE_SECS`, and each process counts their budgets for itself.
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
  refuseCaller,
  refuseStranger,
  STRANGER,
} from './grant.ts';
export { KeyGate } from './keys/key-gate.ts';
export {
  isInForce,
  isKeyId,
  KEY_PREFIX,
  type KeyLimits,
  type KeyRecord,
  keyIdOf,
  LIMIT_MAX,
  LIST_MAX,
  SCOPES,
  type Scope,
  TEXT_MAX,
} from './keys/key-record.ts';
export { type IssuedKey, issueKey, type KeyStore, revokeKey, rotateKey } from './keys/key-store.ts';
export { openKeyStore } from './keys/open-store.ts';
export { type NamedRequest, RequestNames } from './request-names.ts';
