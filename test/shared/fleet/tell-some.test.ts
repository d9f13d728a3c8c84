import { expect, it } from 'vitest';
import { tellSome } from '../../../shared/planes/nats/open-nats.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

it('tells ten problems at once and then one a second, with how many were left out', async () => {
  const clock = new VirtualClock();
  const told: [unknown, number][] = [];
  const tell = tellSome(clock, (problem, untold) => told.push([problem, untold]));
  for (let at = 0; at < 100; at++) tell(at);
  expect(told).toEqual(Array.from({ length: 10 }, (_, at) => [at, 0]));
  await clock.advance(1000);
  for (let at = 100; at < 110; at++) tell(at);
  expect(told.slice(10)).toEqual([[100, 90]]);
  await clock.advance(60_000);
  for (let at = 0; at < 100; at++) tell('later');
  expect(told.slice(11)).toEqual([['later', 9], ...Array.from({ length: 9 }, () => ['later', 0])]);
});
