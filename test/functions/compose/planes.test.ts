import { expect, it } from 'vitest';
import { callingPlane, servingPlane } from '../../../functions/compose/planes.ts';
import { resolveConfig } from '../../../shared/config/index.ts';
import { silentObserver } from '../../../shared/planes/request/index.ts';
import { HeldCalls, RecordingSink } from '../../contract/planes/recording-sink.ts';
import { waitUntil } from '../../support/index.ts';

it('a worker takes as many streams on a connection as a caller was set to put there', async () => {
  const streams = 1500;
  const env = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_TCP_CHANNEL_BUFFER: String(streams) };
  const serving = servingPlane(resolveConfig('worker', ['--engine=mocker'], env).settings, silentObserver);
  const calling = callingPlane(resolveConfig('frontend', [], env).settings, silentObserver, { poolSizeMax: 1 });
  const held = new HeldCalls();
  const server = await serving.serve({ instanceId: '2a' });
  const transport = server.handle('2a/dynamo/backend/generate', held.handler);
  const sinks = Array.from({ length: streams }, (_, at) => {
    const sink = new RecordingSink();
    calling.call(transport, { id: String(at), headers: {}, body: {} }, sink);
    return sink;
  });
  await waitUntil(() => held.calls.length === streams, { what: 'every call at the worker' });
  expect(server.activeStreams).toBe(streams);
  for (const call of held.calls) call.end();
  for (const sink of sinks) expect((await sink.closed()).kind).toBe('end');
  await Promise.all([calling.close(), serving.close()]);
});
