/**
 * @module access/keys
 * API keys: records in a DynamoDB table or a file, which hold no secret; a gate that checks them from memory, with a
 * read a key and `STATOR_KEY_CACHE_SECS`; budgets of requests and tokens, counted by each process for itself.
 */
export { DynamoDbKeyStore, type DynamoDbKeyStoreOptions } from './dynamodb-key-store.ts';
export { FileKeyStore } from './file-key-store.ts';
export { KeyGate, type KeyGateOptions, type RefusalReason } from './key-gate.ts';
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
} from './key-record.ts';
export {
  type IssuedKey,
  issueKey,
  type KeyStore,
  type NewKey,
  revokeKey,
  rotateKey,
} from './key-store.ts';
export { openKeyStore } from './open-store.ts';
