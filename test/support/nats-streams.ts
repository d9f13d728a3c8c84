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
