import { expect, it } from 'vitest';
import { workerError } from '../../../../shared/errors/index.ts';
import { accept, finish, say, start } from './start-run.ts';

it('a request is in the stage of its dispatch until its worker says something', async () => {
  const { plane, stages, timed } = start();
  const call = await plane.seen(1);
  expect(Object.fromEntries(stages)).toEqual({ 'route aggregated': 0, 'dispatch aggregated': 1 });
  accept(call);
  expect(stages.get('dispatch aggregated')).toBe(1);
  say(call, 'ab');
  say(call, 'c');
  expect(stages.get('dispatch aggregated')).toBe(0);
  finish(call);
  expect(timed).toEqual(['route', 'transport_roundtrip', '3 tokens', 'postprocess']);
  expect([...stages.values()]).toEqual([0, 0]);
});

it.each([
  ['taken by another worker', 'new_request success 40'],
  ['taken by no worker', 'new_request failure 40'],
  ['given up by its client', 'new_request cancelled 40'],
])('a move that is %s is timed', async (how, expected) => {
  const { plane, client, clock, stages, timed } = start({}, { limit: 1 });
  (await plane.seen(1)).sink.fail(workerError('EngineShutdown'));
  const next = await plane.seen(2);
  await clock.advance(40);
  if (how.startsWith('taken by another')) accept(next);
  else if (how.startsWith('taken by no worker')) next.sink.fail(workerError('CannotConnect'));
  else client.abort(new Error('left'));
  expect(timed.filter((each) => each.startsWith('new_request'))).toEqual([expected]);
  if (how.startsWith('taken by another')) expect(stages.get('dispatch aggregated')).toBe(1);
  else expect([...stages.values()]).toEqual([0, 0]);
});
