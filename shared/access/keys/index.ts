/**
 * @module access/keys
 * API keys: records in a DynamoDB table, a file or memory, which hold no secret; a gate that checks them from memory, with a
 * read a key and `STATOR_KEY_CACHE_SECS`; budgets of requests and tokens, counted by each process for itself.
 */
export { DynamoDbKeyStore, type DynamoDbKeyStoreOptions } from './dynamodb/dynamodb-key-store.ts';
export { FileKeyStore } from './file/file-key-store.ts';
export { type IssuedKey, issueKey, type NewKey, revokeKey, rotateKey } from './issue.ts';
export { KeyGate, type KeyGateOptions, type RefusalReason } from './key-gate.ts';
export {
  isInForce,
  type KeyLimits,
  type KeyRecord,
  LIMIT_MAX,
  LIST_MAX,
  SCOPES,
  type Scope,
  TEXT_MAX,
} from './key-record.ts';
export type { KeyStore } from './key-store.ts';
export { isKeyId, KEY_PREFIX, keyIdOf } from './key-text.ts';
export { MemoryKeyStore } from './memory/memory-key-store.ts';
export { openKeyStore } from './open-store.ts';
