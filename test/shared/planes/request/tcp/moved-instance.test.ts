import { expect, it } from 'vitest';
import { systemClock } from '../../../../../shared/clock/index.ts';
import { createTcpRequestPlane } from '../../../../../shared/planes/request/tcp/plane.ts';
import { HeldCalls, RecordingSink } from '../../../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../../../support/index.ts';

it('calls an instance that moved at its new address, while a stream at the old one goes on', async () => {
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1' });
  const caller = createTcpRequestPlane({ clock: systemClock });
  const processes = [5, 6].map((token) => ({ token, held: new HeldCalls(), sink: new RecordingSink() }));
  const servers = [];
  for (const { token, held, sink } of processes) {
    const server = await plane.serve({ instanceId: '2a' });
    servers.push(server);
    const transport = server.handle('2a/dynamo/backend/generate', held.handler);
    const body = { token_ids: [1], stop_conditions: {}, sampling_options: {}, output_options: {} };
    caller.call(transport, { id: `r${token}`, headers: {}, body }, sink);
    await held.at(0);
  }
  for (const { token, held } of processes) {
    held.calls[0]?.tokens(0, [token], 0, 1);
    held.calls[0]?.end();
  }
  await waitUntil(() => processes.every(({ sink }) => sink.events.at(-1)?.kind === 'end'));
  expect(processes.map(({ sink }) => sink.ids)).toEqual([[5], [6]]);
  await caller.close();
  await Promise.all(servers.map((server) => server.close()));
});
