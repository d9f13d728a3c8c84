/**
 * @module test/support Code that suites share: servers, ports, processes, faults and waiting for real I/O. Tools come
 * from the global set-up.
 */
export { createTable, TABLE_SCHEMA } from './create-table.ts';
export { type DynamoDbServer, hasDynamoDb, startDynamoDb, startDynoxide } from './dynamodb-server.ts';
export { type EtcdCluster, type EtcdMember, type EtcdOptions, hasEtcd, startEtcd } from './etcd-server.ts';
export { type Fleet, runStator, type StatorProcess, spawnStator, useFleet } from './fleet.ts';
export { freePort, freePorts } from './free-port.ts';
export { FreezableClock } from './freezable-clock.ts';
export { askAbout, type PlacedAnswer, untilHeld } from './kv-client.ts';
export { hasNatsServer, type NatsServer, type NatsServerOptions, startNatsServer } from './nats-server.ts';
export { type ChatAnswer, type ChatStream, openChat, postJson, readChat, saidIn, sseData } from './openai-http.ts';
export { childPids, isRunning } from './process-table.ts';
export { type SpawnedProcess, spawnNode, spawnProgram } from './spawn-node.ts';
export { spawnTypeScript } from './spawn-typescript.ts';
export { hasSqs, type SqsServer, startSqs } from './sqs-server.ts';
export { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
export { readTlsFixture } from './tls-fixtures.ts';
export { waitUntil } from './wait-until.ts';
