/**
 * @module test/support
 * What suites share: servers, ports, processes and waiting for real I/O. Tools come from the global set-up.
 */
export { type DynamoDbServer, hasDynamoDb, startDynamoDb, startDynoxide } from './dynamodb-server.ts';
export { freePort } from './free-port.ts';
export { type SpawnedProcess, spawnNode, spawnProgram } from './spawn-node.ts';
export { waitUntil } from './wait-until.ts';
