import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

/**
 * Deletes every JetStream stream of a server, as an operator would, and each name only once. The server removes files
 * later. If it has not done so before the next deletion of the name, a stream created afterwards still finds the old
 * messages.
 */
export async function deleteStreams(url: string): Promise<void> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  for (const { config } of await manager.streams.list().next()) await manager.streams.delete(config.name);
  await connection.close();
}

/** Returns the bytes that each JetStream stream of a server reserves, by its name. */
export async function streamSizes(url: string): Promise<Readonly<Record<string, number>>> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  const streams = await manager.streams.list().next();
  await connection.close();
  return Object.fromEntries(streams.map(({ config }) => [config.name, config.max_bytes]));
}
