import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

/**
 * Deletes every JetStream stream of a server, as an operator would. Once for each name: the server removes files later, and
 * where it has not yet when the next of that name is deleted, the one after that finds what was in it.
 */
export async function deleteStreams(url: string): Promise<void> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  for (const { config } of await manager.streams.list().next()) await manager.streams.delete(config.name);
  await connection.close();
}
