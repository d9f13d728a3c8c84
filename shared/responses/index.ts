/**
 * @module responses
 * Stored responses with a time to live: bounded memory for one process, a DynamoDB table for many. A record carries its
 * whole input, so a conversation can continue after its earlier responses have expired or were deleted.
 */
export { DynamoDbResponseStore } from './dynamodb-response-store.ts';
export { MemoryResponseStore } from './memory-response-store.ts';
export { type JsonObject, type ResponseStore, ResponseStoreError, type StoredResponse } from './response-store.ts';
