import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

/** Deletes every JetStream stream of a server, as an operator would. */
export async function deleteStreams(url: string): Promise<void> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  for (const { config } of await manager.streams.list().next()) {
    // The server removes the files of a stream later: one of the same name made at once would find what was in it.
    await manager.streams.purge(config.name);
    await manager.streams.delete(config.name);
  }
  await connection.close();
}
