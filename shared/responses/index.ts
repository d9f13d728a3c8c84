/**
 * @module responses
 * Stored responses with a time to live: bounded memory for one process, a DynamoDB table for many. A record carries its whole
 * input, so that a conversation goes on when its earlier responses have expired or were deleted.
 */
export { DynamoDbResponseStore, type DynamoDbResponseStoreOptions } from './dynamodb/dynamodb-response-store.ts';
export { RESPONSES_TABLE_SCHEMA } from './dynamodb/table-schema.ts';
export { MemoryResponseStore, type MemoryResponseStoreOptions } from './memory/memory-response-store.ts';
export { ResponseStoreError, type ResponseStoreErrorCode } from './response-store-error.ts';
export type { JsonObject, ResponseStore, StoredResponse } from './types.ts';
