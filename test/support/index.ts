/**
 * @module test/support
 * What suites share: servers, ports, processes, faults and waiting for real I/O. Tools come from the global set-up.
 */
export { type DynamoDbServer, hasDynamoDb, startDynamoDb, startDynoxide } from './dynamodb-server.ts';
export { freePort } from './free-port.ts';
export { FreezableClock } from './freezable-clock.ts';
export { type SpawnedProcess, spawnNode, spawnProgram } from './spawn-node.ts';
export { spawnTypeScript } from './spawn-typescript.ts';
export { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
export { waitUntil } from './wait-until.ts';
