/**
 * @module access
 * Rules of entry: who may steer a process (a user of its machine, or a holder of its secret), the identity under which
 * a request is admitted, and unforgeable names of requests. API keys are records in a DynamoDB table or a file, which
 * hold no secret. Their gate checks them from memory and reads each key once per `STATOR_KEY_CACHE_SECS`. Each process
 * counts the budgets of keys for itself.
 */
export {
  type Admission,
  ANYBODY,
  type Caller,
  type Gate,
  type Grant,
  holdsSecret,
  hostNameOf,
  type KeyUse,
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
  type KeyLimits,
  type KeyRecord,
  LIMIT_MAX,
  LIST_MAX,
  SCOPES,
  type Scope,
  TEXT_MAX,
} from './keys/key-record.ts';
export {
  type IssuedKey,
  issueKey,
  type KeyStore,
  KeyStoreError,
  limitKey,
  revokeKey,
  rotateKey,
} from './keys/key-store.ts';
export { isKeyId, KEY_PREFIX, keyIdOf } from './keys/key-text.ts';
export { openKeyStore } from './keys/open-store.ts';
export { type NamedRequest, RequestNames } from './request-names.ts';
